"""A voice loop: what is typed or said goes to an agent, and espeak-ng speaks the reply.

Interlock decides whether the reply may be heard, and how loud. ``README.md`` shows how to try it.
"""

from __future__ import annotations

import argparse
import array
import asyncio
import contextlib
import re
import signal
import sys
import tempfile
from typing import AsyncIterator, Dict, NamedTuple, Optional

from interlock_client import AsyncClient, ClientError, MessageTexts, utf16_length
from interlock_client.types import Session

#: What espeak-ng writes: one channel of 16 bits, behind 44 bytes.
RATE = 22_050
HEADER_BYTES = 44
#: The samples that are written at once: 20 ms.
BLOCK = RATE // 50
#: The rate that pocketsphinx expects.
LISTENING_RATE = 16_000
#: A sentence ends with punctuation before a space, or with Chinese punctuation.
SENTENCE = re.compile(r".+?(?:[.!?](?=\s)|[。！？])", re.DOTALL)


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


async def output_of(*command: str, text: str = "") -> bytes:
    """What a program prints.

    :raises RuntimeError: if it fails
    """
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL
    )
    printed, _ = await process.communicate(text.encode())
    if process.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with code {process.returncode}")
    return printed


class Sentence(NamedTuple):
    """A part of a message."""

    text: str
    message_id: str
    #: Where it begins in the message, in UTF-16 units.
    begin: int

    def up_to(self, share: float) -> int:
        """Where the last word ends that was heard as a whole, in UTF-16 units of the message."""
        index = int(len(self.text) * share)
        if index < len(self.text):
            index = self.text.rfind(" ", 0, index) + 1
        return self.begin + utf16_length(self.text[:index])


class Speaker:
    """Speaks sentences one after another, in blocks of 20 ms, while it may be heard."""

    def __init__(self, output: asyncio.StreamWriter) -> None:
        self._output = output
        self._sentences: "asyncio.Queue[tuple[int, Sentence]]" = asyncio.Queue()
        self._may_sound = asyncio.Event()
        self._factor = 1.0
        self._turn = 0
        #: How far each message was heard, in UTF-16 units.
        self.heard: Dict[str, int] = {}

    def obey(self, state: str, level: float) -> None:
        """:param level: how much quieter than its own volume, in dB: 0 to -60"""
        self._factor = 10 ** (min(level, 0) / 20)
        if state in ("active", "ducked"):
            self._may_sound.set()
        else:
            self._may_sound.clear()

    def say(self, sentence: Sentence) -> None:
        """Speak this after what waits."""
        self._sentences.put_nowait((self._turn, sentence))

    def interrupt(self) -> None:
        """Stop within a word, and forget what waits."""
        self._turn += 1

    async def run(self) -> None:
        while True:
            turn, sentence = await self._sentences.get()
            if turn == self._turn:
                sound = await output_of("espeak-ng", "--stdin", "--stdout", text=sentence.text)
                await self._play(turn, sentence, array.array("h", sound[HEADER_BYTES : len(sound) // 2 * 2]))

    async def _play(self, turn: int, sentence: Sentence, samples: "array.array[int]") -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        for at in range(0, len(samples), BLOCK):
            await self._may_sound.wait()
            if turn != self._turn:
                return
            block = samples[at : at + BLOCK]
            self._output.write(array.array("h", (int(sample * self._factor) for sample in block)).tobytes())
            await self._output.drain()
            self.heard[sentence.message_id] = sentence.up_to((at + len(block)) / len(samples))
            # A pause is not caught up with.
            due = max(due, loop.time() - 0.1) + BLOCK / RATE
            await asyncio.sleep(due - loop.time())


class Conversation:
    """One session with an agent, which is spoken. If its user moves it to another floor, it goes on in a new session."""

    def __init__(self, client: AsyncClient, session_id: str, speaker: Speaker) -> None:
        self._client = client
        self.session_id = session_id
        self._speaker = speaker
        self._reported: Dict[str, int] = {}
        #: How much of the newest message was given to the speaker, in characters.
        self._given: Dict[str, int] = {}

    async def follow(self, session: Session, position: Optional[str]) -> None:
        """Obey the session, and speak what its agent writes, until the session ends."""
        while True:
            async with self._client.keep_lease(session, on_lapsed=tell):
                moved_to = await self._follow_until_end(position)
            if moved_to is None:
                return
            self.session_id = moved_to
            session = (await self._client.get_session(moved_to))["session"]
            # From the beginning of its log.
            position = None

    async def _follow_until_end(self, position: Optional[str]) -> Optional[str]:
        """:returns: the session that replaces this one"""
        given = self._given
        moved_to = None
        texts = MessageTexts()
        async with self._client.open_session(self.session_id, position=position) as events:
            async for event in events:
                if event["type"] == "session_transition":
                    if event["data"].get("reason") in ("moved", "superseded"):
                        moved_to = event["data"]["by"]["sessionId"]
                    state = event["data"]["to"].split(".")[0]
                    self._speaker.obey(state, event["data"].get("level", 0))
                    tell(f"{state} ({event['data'].get('reason', event['data']['event'])})")
                elif event["type"] == "reset":
                    session = (await self._client.get_session(self.session_id))["session"]
                    self._speaker.obey(session["state"], session.get("level", 0))
                elif event["type"] == "message" and event["data"]["role"] == "user":
                    # What follows is for this message, whoever has sent it.
                    self._speaker.interrupt()
                message = texts.take(event)
                if message is None or message.agent is None or message.agent["kind"] != "master":
                    continue
                begin = given.get(message.message_id, 0)
                end = begin
                for match in SENTENCE.finditer(message.text, begin):
                    self._say(message.text, message.message_id, end, match.end())
                    end = match.end()
                if not message.is_streaming and end < len(message.text):
                    self._say(message.text, message.message_id, end, len(message.text))
                    end = len(message.text)
                self._given = given = {message.message_id: end}
        return moved_to

    def _say(self, text: str, message_id: str, begin: int, end: int) -> None:
        self._speaker.say(Sentence(text[begin:end], message_id, utf16_length(text[:begin])))

    async def interrupt(self) -> None:
        """The user speaks: stop speaking, and say how much was heard, before the next turn begins."""
        self._speaker.interrupt()
        await self.report()

    async def ask(self, words: str) -> None:
        """Send what the user said. A refusal is told, and the conversation goes on."""
        await self.interrupt()
        try:
            await self._client.abort(self.session_id)
            await self._client.send(words, session_id=self.session_id)
        except ClientError as error:
            tell(str(error))

    async def report(self) -> None:
        """Say how much of the reply was heard."""
        for message_id, up_to in list(self._speaker.heard.items()):
            if self._reported.get(message_id) == up_to:
                continue
            with contextlib.suppress(ClientError):
                await self._client.played(self.session_id, message_id, up_to)
                self._reported[message_id] = up_to

    async def keep_reporting(self) -> None:
        while True:
            await asyncio.sleep(1)
            await self.report()


class Microphone:
    """Records while a button is held, and recognises one of the sentences of a grammar."""

    def __init__(self, device: str, grammar: str) -> None:
        self._device = device
        self._grammar = grammar
        self._recorder: Optional[asyncio.subprocess.Process] = None
        self._sound: "Optional[asyncio.Task[bytes]]" = None

    async def press(self) -> None:
        # What it has not delivered is lost when it is ended: the last 20 ms.
        options = ["--raw", "--format=s16le", f"--rate={LISTENING_RATE}", "--channels=1", "--latency-msec=20"]
        self._recorder = await asyncio.create_subprocess_exec(
            "parec", *options, f"--device={self._device}", stdout=asyncio.subprocess.PIPE
        )
        stdout = self._recorder.stdout
        assert stdout is not None
        # Samples come as soon as it records, also those of silence.
        first = await stdout.read(2)
        self._sound = asyncio.create_task(stdout.read())
        tell("listening" if first else "nothing can be heard")

    async def release(self) -> str:
        """:returns: what was said; empty if it was not understood"""
        if self._recorder is None or self._sound is None:
            return ""
        self._recorder.terminate()
        sound = await self._sound
        await self._recorder.wait()
        self._recorder = None
        with tempfile.NamedTemporaryFile(suffix=".raw") as file:
            file.write(sound)
            file.flush()
            options = ["-infile", file.name, "-jsgf", self._grammar, "-logfn", "/dev/null"]
            lines = (await output_of("pocketsphinx_continuous", *options)).decode().split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


async def lines_of_input() -> AsyncIterator[str]:
    """The lines of standard input, whether it is a terminal, a pipe or a file."""
    process = await asyncio.create_subprocess_exec("cat", stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        while line := await process.stdout.readline():
            yield line.decode(errors="replace").strip()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@contextlib.asynccontextmanager
async def output_to(device: Optional[str]) -> AsyncIterator[asyncio.StreamWriter]:
    """A program that plays samples. Without a device they go to standard output."""
    pacat = ["pacat", "--raw", "--format=s16le", f"--rate={RATE}", "--channels=1", "--latency-msec=50"]
    command = ["cat"] if device is None else [*pacat, f"--device={device}"]
    process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE)
    assert process.stdin is not None
    try:
        yield process.stdin
    finally:
        process.stdin.close()
        await process.wait()


async def talk(client: AsyncClient, output: asyncio.StreamWriter, options: argparse.Namespace) -> None:
    """Have a conversation until the input or the session ends."""
    speaker = Speaker(output)
    microphone = Microphone(options.listen, options.grammar) if options.listen else None
    created = await client.create_session(id=options.session, agent_id=options.agent, user_id=options.user)
    conversation = Conversation(client, created["session"]["id"], speaker)
    tell(f"session {conversation.session_id}")

    async def take_input() -> None:
        async for line in lines_of_input():
            if microphone is None:
                await conversation.ask(line)
            elif line == "press":
                await conversation.interrupt()
                await microphone.press()
            elif line == "release":
                words = await microphone.release()
                tell(f"heard {words or 'nothing'}")
                if words:
                    await conversation.ask(words)

    following = conversation.follow(created["session"], created["position"])
    parts = [following, take_input(), speaker.run(), conversation.keep_reporting()]
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await conversation.report()
        # A session that cannot be ended gives way when its agent's time limits say so.
        with contextlib.suppress(ClientError):
            await client.stop_session(conversation.session_id)


async def main() -> None:
    parser = argparse.ArgumentParser(description="A voice loop: type to an agent, or talk to it, and hear its reply.")
    parser.add_argument("--url", default="http://127.0.0.1:3000", help="the node; default: %(default)s")
    parser.add_argument("--user", required=True, help="whose floor")
    parser.add_argument("--agent", help="an agent that takes turns; default: the catalogue's")
    parser.add_argument("--session", help="an id for the session; default: the node makes one")
    parser.add_argument("--play", metavar="DEVICE", help="a sink of PulseAudio; default: samples on standard output")
    parser.add_argument("--listen", metavar="DEVICE", help="a source of PulseAudio; lines of input are press and release")
    parser.add_argument("--grammar", metavar="FILE", help="what may be said, in JSGF; with --listen")
    options = parser.parse_args()
    own = asyncio.current_task()
    assert own is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, own.cancel)
    async with AsyncClient(options.url) as client, output_to(options.play) as output:
        await talk(client, output, options)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(main())
