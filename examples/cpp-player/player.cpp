// A player that takes part on a floor of Interlock. docs/use/cpp.md explains it.
//
//   g++ -std=c++17 -Wall -Wextra -Werror -pthread player.cpp -o player -lcurl
//   ./player http://127.0.0.1:3000 ann music_agent song-1 song.wav | pacat --rate=22050 --channels=1
//
// Without a file it speaks the replies of an agent that takes turns, with espeak-ng.
#include <curl/curl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Ms = std::chrono::duration<double, std::milli>;
using Text = const std::string&;
using Values = std::map<std::string, std::string>;
using Samples = std::vector<std::int16_t>;
/** The id and the text of a message. */
using Reply = std::pair<std::string, std::string>;
/** Gets an answer in pieces. @returns whether it wants more */
using Take = std::function<bool(const char* bytes, std::size_t count)>;

/** The longest answer, and the longest line of a stream. What is longer is not read. */
constexpr std::size_t MAX_BYTES = 1 << 20;
/** Samples in a second, and in the 20 ms that are written at once. */
constexpr std::size_t RATE = 22'050, BLOCK = RATE / 50;
/** SIGTERM or SIGINT has come. */
std::atomic<bool> isEnding{false};

void rest(Ms time) {
  for (const auto end = Clock::now() + time; Clock::now() < end && !isEnding;) std::this_thread::sleep_for(20ms);
}

/**
 * The values of a JSON text by their paths: in {"data": {"to": "paused"}} the value of data.to is paused. Empty strings
 * are left out, of an array the last value counts, and a \u escape becomes a space: the node writes only control
 * characters and line separators so. Text that is not JSON is not recognised. A text with more than 32 levels, 10,000
 * values or 256 bytes of a path has no values.
 */
Values valuesOf(Text json) {
  static const std::string escapes = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t";
  Values values;
  std::vector<std::string> parents;
  std::string path, word;
  for (std::size_t at = 0; at < json.size(); ++at) {
    const char c = json[at];
    if (c == '"') {
      while (++at < json.size() && json[at] != '"') {
        const bool isEscape = json[at] == '\\' && ++at < json.size();
        const auto found = isEscape ? escapes.find(json[at]) : std::string::npos;
        word += !isEscape ? json[at] : found == std::string::npos ? ' ' : meant[found];
        if (isEscape && json[at] == 'u') at += 4;
      }
    } else if (c == ':' && !parents.empty()) {
      path = parents.back().empty() ? word : parents.back() + "." + word;
      word.clear();
    } else if (c == '{' || c == '[') {
      parents.push_back(path);
    } else if (c == ',' || c == '}' || c == ']') {
      if (!word.empty()) values[path] = word;
      word.clear();
      if (c == ',' || parents.empty()) continue;
      path = parents.back();
      parents.pop_back();
    } else if (std::strchr(" \t\r\n", c) == nullptr) {
      word += c;
    }
    if (parents.size() > 32 || values.size() > 10'000 || path.size() > 256) return {};
  }
  return values;
}

/** A number within bounds: whatever answers, the player is neither too loud nor away for long. */
double number(Text text, double from, double to) {
  const double value = std::atof(text.c_str());
  return value > from ? std::min(value, to) : from;
}

/** A string as JSON. */
std::string quoted(Text text) {
  std::string json = "\"";
  for (const char c : text) (json += c == '"' || c == '\\' ? "\\" : "") += c >= 0 && c < ' ' ? ' ' : c;
  return json + '"';
}

/** Sends a request, and waits for the end of its answer. @returns its status; 0 without a complete answer */
long send(Text method, Text url, Text body, Text header, long timeoutMs, const Take& take) {
  curl_slist* headers = curl_slist_append(curl_slist_append(nullptr, "Content-Type: application/json"), header.c_str());
  if (const char* file = std::getenv("INTERLOCK_TOKEN_FILE")) {
    std::string token;
    std::ifstream(file) >> token;
    headers = curl_slist_append(headers, ("Authorization: Bearer " + token).c_str());
  }
  CURL* const curl = curl_easy_init();
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  if (method == "POST") curl_easy_setopt(curl, CURLOPT_COPYPOSTFIELDS, body.c_str());
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, 5000L);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, timeoutMs);
  // A stream that brings nothing for 45 s is dead: the node sends a comment every 15 s.
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, 45L);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &take);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, +[](char* bytes, std::size_t, std::size_t count, const Take* take) {
    return (*take)(bytes, count) ? count : 0;
  });
  long status = 0;
  if (curl_easy_perform(curl) == CURLE_OK) curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_cleanup(curl);
  curl_slist_free_all(headers);
  return status;
}

/** Sends a request once. @returns its status, and the values of the answer */
std::pair<long, Values> ask(Text method, Text url, Text body = "", Text header = "", long timeoutMs = 5000) {
  std::string text;
  const auto take = [&](auto bytes, auto count) { return text.append(bytes, count).size() <= MAX_BYTES; };
  const long status = send(method, url, body, header, timeoutMs, take);
  return {status, valuesOf(text)};
}

/** Sends a command until the node has decided. Its key is the same each time, so that it has one effect. */
std::pair<long, Values> command(Text url, Text body = "{}") {
  const auto key = std::to_string(getpid()) + "-" + std::to_string(Clock::now().time_since_epoch().count());
  for (Ms wait = 250ms;; wait = std::min<Ms>(2 * wait, 5s)) {
    auto [status, answer] = ask("POST", url, body, "Idempotency-Key: " + key);
    const std::string said = answer["error"].empty() ? answer["decision.say"] : answer["error"];
    if (!said.empty()) std::fprintf(stderr, "%s\n", said.c_str());
    if (isEnding || (status >= 200 && status < 500 && status != 401 && status != 429)) return {status, answer};
    rest(std::max(wait, Ms(number(answer["retryAfterMs"], 0, 60'000))));
  }
}

/** The samples of a WAV file as espeak-ng writes it: 44 bytes of header, one channel of 16 bits, 22,050 Hz. */
Samples readWav(std::FILE* file) {
  Samples samples(22), block(BLOCK);
  const bool hasHeader = file && std::fread(samples.data(), 2, 22, file) == 22;
  samples.clear();
  while (const auto count = hasHeader ? std::fread(block.data(), 2, BLOCK, file) : 0) {
    samples.insert(samples.end(), block.begin(), block.begin() + count);
  }
  return samples;
}

Samples synthesise(Text words) {
  std::FILE* const input = std::tmpfile();
  std::fwrite(words.data(), 1, words.size(), input);
  std::fflush(input);
  std::FILE* const voice = popen(("espeak-ng --stdin --stdout </dev/fd/" + std::to_string(fileno(input))).c_str(), "r");
  Samples samples = readWav(voice);
  pclose(voice);
  std::fclose(input);
  return samples;
}

/** One session, and the sound that it lets be heard. */
class Player {
 public:
  Player(Text node, Samples song) : node(node), isSong(!song.empty()), samples(std::move(song)) {}

  /** Asks for the floor. @returns false if it is refused */
  bool open(Text user, Text agent, Text wanted) {
    const auto body = R"({"activate": true, "userId": )" + quoted(user) + R"(, "agentId": )" + quoted(agent);
    auto [status, answer] = command(node + "/session/create", body + R"(, "id": )" + quoted(wanted) + "}");
    if (status != 200) return false;
    id = answer["session.id"];
    position = answer["position"];
    takeLease(answer["session.leaseMs"]);
    obey(answer);
    // A former process of this player has left it, and its lease has lapsed.
    if (answer["session.state"] == "paused") resume();
    return true;
  }

  /** Follows the session over any number of connections, each of which goes on after the last event. */
  void follow() {
    for (; !isOver; rest(wait)) {
      std::string line, newest, data;
      const auto take = [&](const char* bytes, std::size_t count) {
        for (const char c : std::string(bytes, count)) {
          if (c != '\n' && line.size() < MAX_BYTES) line += c;
          if (c != '\n') continue;
          if (line.rfind("id: ", 0) == 0) newest = line.substr(4);
          if (line.rfind("data: ", 0) == 0 && line.size() < MAX_BYTES) data = line.substr(6);
          if (line.empty()) {
            wait = 250ms;
            if (!heed(valuesOf(data))) return false;
            if (!newest.empty()) position = newest;
            newest = data = "";
          }
          line.clear();
        }
        return true;
      };
      wait = std::min<Ms>(2 * wait, 5s);
      const long status = send("GET", sessionUrl() + "/events", "", "Last-Event-ID: " + position, 0, take);
      // Nothing follows, or the session does not exist any more.
      if (status == 204 || status == 404) isOver = true;
    }
  }

  /** Renews the lease three times in its length, while the sound goes on: a player that hangs loses its place. */
  void beat() {
    bool wasLapsed = false;
    for (auto due = Clock::now(); !isOver; rest(250ms)) {
      report();
      if (Clock::now() < due || Clock::now() - alive.load() > Ms(leaseMs)) continue;
      const auto begun = Clock::now();
      const auto heartbeat = R"({"type": "heartbeat", "sessionId": )" + quoted(id) + "}";
      // The next one replaces one that has no answer.
      auto [status, answer] = ask("POST", node + "/message", heartbeat, "", std::min<long>(leaseMs / 3, 5000));
      takeLease(answer["leaseMs"]);
      due = begun + std::chrono::milliseconds(leaseMs / 3);
      if (status == 404 || answer["errorCode"] == "session_archived") isOver = true;
      if (status != 200) continue;
      const bool isLapsed = answer["lapsed"] == "true";
      if (isLapsed && !wasLapsed) resume();
      wasLapsed = isLapsed;
    }
  }

  /** Sounds while the floor lets it, until the session or the song ends or a signal comes. */
  void play() {
    for (auto due = Clock::now(); !isOver && !isEnding; std::this_thread::sleep_until(due)) {
      alive = Clock::now();
      due = std::max(due, Clock::now()) + 20ms;
      if (!isSong && (at == samples.size() || isStale)) speakNext();
      if (at == samples.size() && isSong) return;
      if (at == samples.size() || gain == 0) continue;
      Samples block(samples.begin() + at, samples.begin() + std::min(at + BLOCK, samples.size()));
      for (auto& sample : block) sample = std::lround(sample * gain);
      if (std::fwrite(block.data(), 2, block.size(), stdout) < block.size() || std::fflush(stdout) != 0) return;
      at += block.size();
      if (!isSong) note();
    }
  }

  /** Ends the session. If the node is away, the lease does. */
  void close() {
    isOver = true;
    gain = 0;
    report();
    ask("POST", sessionUrl() + "/stop", "{}");
  }

 private:
  std::string sessionUrl() const { return node + "/session/" + id; }

  void takeLease(Text text) {
    if (!text.empty()) leaseMs = number(text, 1000, 86'400'000);
  }

  /** The lease has lapsed: others may be heard, and only a request brings the session back. */
  void resume() {
    gain = 0;
    obey(command(sessionUrl() + "/activate").second);
  }

  /** Does what an event says. @returns whether it was done */
  bool heed(Values event) {
    const std::string type = event["type"];
    if (type == "session_transition") obey(event["data.to"], event["data.level"], number(event["seq"], 0, 1e15));
    if (type == "message" && event["data.streaming"] == "false") hear(event);
    if (type == "bye") wait = Ms(number(event["data.reconnectInMs"], 250, 60'000));
    if (type == "bye" && event["data.reason"] == "ended") isOver = true;
    if (type != "reset") return true;
    // The log has a gap here: the state is read anew, and the stream goes on after it.
    auto [status, answer] = ask("GET", sessionUrl());
    known = 0;
    obey(answer);
    return status == 200;
  }

  /** The position of an answer is <epoch>.<seq>.<incarnation>. A refusal has none. */
  void obey(Values answer) {
    const auto dot = answer["position"].find('.');
    if (dot == std::string::npos) return;
    obey(answer["session.state"], answer["session.level"], number(answer["position"].substr(dot + 1), 0, 1e15));
  }

  /** Sounds as the session's state says, unless something newer is known: an answer and an event may overtake. */
  void obey(Text state, Text level, long seq) {
    const std::lock_guard lock(mutex);
    if (seq < known) return;
    known = seq;
    const bool isHeard = state.rfind("active", 0) == 0 || state.rfind("ducked", 0) == 0;
    gain = isHeard ? std::pow(10, number(level, -60, 0) / 20) : 0;
    if (state == "archived" || state == "deleted") isOver = true;
    const auto now = state.substr(0, state.find('.')) + (level.empty() ? "" : " at " + level + " dB");
    if (now != shown) std::fprintf(stderr, "%.2f s: %s\n", double(at) / RATE, now.c_str());
    shown = now;
  }

  /** Takes a reply that is to be spoken. What the user says ends what is spoken. */
  void hear(Values event) {
    const std::lock_guard lock(mutex);
    if (event["data.role"] == "user") {
      replies.clear();
      isStale = true;
    } else if (event["data.agent.kind"] == "master" && event["data.id"] != taken && replies.size() < 10) {
      taken = event["data.id"];
      // Ten minutes of speech.
      replies.emplace_back(taken, event["data.content"].substr(0, 10'000));
    }
  }

  void speakNext() {
    {
      const std::lock_guard lock(mutex);
      reply = replies.empty() ? Reply() : replies.front();
      if (!replies.empty()) replies.pop_front();
      isStale = false;
    }
    samples = reply.second.empty() ? Samples() : synthesise(reply.second);
    at = 0;
  }

  /** Remembers how much of the reply was heard, in UTF-16 units: two for a character of four bytes, one for others. */
  void note() {
    const auto& [message, text] = reply;
    const auto count = [&](auto isIt) { return std::count_if(text.begin(), text.end(), isIt); };
    const auto characters = count([](char c) { return (c & 0xC0) != 0x80; });
    const auto pairs = count([](char c) { return (c & 0xF8) == 0xF0; });
    const std::lock_guard lock(mutex);
    heard = {message, (characters + pairs) * at / samples.size()};
  }

  /** Says how much was heard, if it is more than the node knows. */
  void report() {
    std::unique_lock lock(mutex);
    const auto [message, upTo] = heard;
    if (std::pair(message, upTo) == reported) return;
    lock.unlock();
    const auto body = R"({"type": "played", "sessionId": )" + quoted(id) + R"(, "messageId": )" + quoted(message);
    const auto status = ask("POST", node + "/message", body + R"(, "upTo": )" + std::to_string(upTo) + "}").first;
    lock.lock();
    if (status >= 200 && status < 500) reported = {message, upTo};
  }

  const std::string node;
  const bool isSong;
  std::string id, position;
  Ms wait = 250ms;
  std::atomic<bool> isOver{false}, isStale{false};
  /** The factor of the samples: 0 if the floor lets nothing be heard. */
  std::atomic<double> gain{0};
  std::atomic<int> leaseMs{30'000};
  /** When the sound last went on. */
  std::atomic<Clock::time_point> alive{Clock::now()};
  Samples samples;
  std::atomic<std::size_t> at{0};
  Reply reply;

  /** Guards what follows. */
  std::mutex mutex;
  /** The event up to which the state of the session is known. */
  long known = 0;
  std::string shown;
  std::deque<Reply> replies;
  /** The newest of them: one that was cut off comes once more, with a longer text. */
  std::string taken;
  std::pair<std::string, long> heard, reported;
};

int main(int argc, char** argv) {
  if (argc < 5) return std::fprintf(stderr, "usage: player URL USER AGENT SESSION [FILE]\n"), 2;
  for (const int signal : {SIGTERM, SIGINT}) std::signal(signal, [](int) { isEnding = true; });
  std::signal(SIGPIPE, SIG_IGN);
  curl_global_init(CURL_GLOBAL_DEFAULT);
  const Samples song = argc > 5 ? readWav(std::fopen(argv[5], "rb")) : Samples();
  if (argc > 5 && song.empty()) return std::fprintf(stderr, "%s is no WAV file with sound\n", argv[5]), 2;
  Player player(argv[1], song);
  if (!player.open(argv[2], argv[3], argv[4])) return 1;
  std::thread([&] { player.follow(); }).detach();
  std::thread([&] { player.beat(); }).detach();
  player.play();
  player.close();
  std::_Exit(0);  // The threads may wait for answers.
}
