// A player that takes part on a floor of Interlock. docs/use/cpp.md explains it.
//   g++ -std=c++17 -Wall -Wextra -Werror player.cpp -o player -lcurl
//   ./player http://127.0.0.1:3000 ann music_agent song-1 song.wav | pacat --rate=22050 --channels=1
#include <curl/curl.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace std::chrono_literals;
using nlohmann::json;
using Clock = std::chrono::steady_clock;
using Ms = std::chrono::milliseconds;
using Text = const std::string&;
/** Samples in a second, bytes before them in a file, and bytes of an answer: what is longer is cut off. */
constexpr std::size_t RATE = 22'050, HEADER = 44, MAX_BYTES = 8 << 20;
/** A signal has come, or the song has ended. */
volatile std::sig_atomic_t isEnding = 0;
CURLM* const requests = curl_multi_init();

/** The value at a path of JSON, or another if it is missing or of another type. */
template <class T = std::string> T at(const json& from, const char* path, T otherwise = T()) {
  try { return from.at(json::json_pointer(path)).get<T>(); } catch (const json::exception&) { return otherwise; }
}
Ms msAt(const json& from, const char* path, Ms otherwise, Ms least, Ms most) {
  return Ms(long(std::clamp<double>(at<double>(from, path, otherwise.count()), least.count(), most.count())));
}

/** A request that is under way while the sound goes on. */
struct Request {
  CURL* const curl = curl_easy_init();
  curl_slist* headers = nullptr;
  std::string body, text;
  json answer;
  long status = 0;
  bool isUnderWay = false;

  /** It is a POST if it has a body. */
  void begin(Text url, const json& sent, Text header = "", Ms timeout = 5s) {
    std::string token;
    if (const char* file = std::getenv("INTERLOCK_TOKEN_FILE")) std::ifstream(file) >> token;
    curl_slist_free_all(std::exchange(headers, nullptr));
    if (!token.empty()) token = " Bearer " + token;
    for (Text each : {std::string("Content-Type: application/json"), "Authorization:" + token, header})
      headers = curl_slist_append(headers, each.c_str());
    text.clear(), status = 0, body = sent.is_null() ? "" : sent.dump(-1, ' ', false, json::error_handler_t::replace);
    curl_easy_reset(curl);
    curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    if (!body.empty()) curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.c_str());
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, 5000L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, long(timeout.count()));
    // A stream that brings nothing for 45 s is dead: the node sends a comment every 15 s.
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, 45L);
    curl_easy_setopt(curl, CURLOPT_PRIVATE, this);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, this);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, +[](char* bytes, std::size_t, std::size_t count, Request* request) {
      return request->text.append(bytes, count).size() <= MAX_BYTES ? count : 0;
    });
    isUnderWay = curl_multi_add_handle(requests, curl) == CURLM_OK;
  }
  void end() {
    curl_multi_remove_handle(requests, curl);
    isUnderWay = false, answer = json::parse(text, nullptr, false);
  }
};

/** Lets the requests go on, at most for a time. */
void work(Clock::duration time) {
  int count = 0;
  curl_multi_poll(requests, nullptr, 0, std::chrono::ceil<Ms>(time).count(), nullptr);
  curl_multi_perform(requests, &count);
  while (const CURLMsg* done = curl_multi_info_read(requests, &count)) {
    Request* request = nullptr;
    curl_easy_getinfo(done->easy_handle, CURLINFO_PRIVATE, &request);
    if (done->data.result == CURLE_OK) curl_easy_getinfo(request->curl, CURLINFO_RESPONSE_CODE, &request->status);
    request->end();
  }
}

/** One session, and the song that it lets be heard. */
struct Player {
  const std::string node;
  std::string id, url = node + "/session/" + id;
  std::FILE* const song;
  std::string position, shown, movedTo;
  /** The factor of the samples: 0 if the floor lets nothing be heard. */
  double gain = 0;
  Request asked, stream, beat;
  Ms lease = 30s, wait = 250ms;
  Clock::time_point streamDue, lastBeat;
  bool isOver = false, isLapsed = false, hasGap = false;

  Player(Text node, Text id, std::FILE* song) : node(node), id(id), song(song) {}

  /** Plays until the song ends, another ends the session, or a signal comes. @returns the exit code: 1 if refused */
  int run(Text user, Text agent) {
    const json wanted = {{"id", id}, {"userId", user}, {"agentId", agent}, {"activate", true}};
    if (command(node + "/session/create", wanted) != 200) return 1;
    while (!isOver && !isEnding) step(), follow(), keepLease();
    if (!isOver) command(url + "/stop", json::object());
    return 0;
  }

  /** Sends a command until the node has decided. Its key is the same each time, so that it has one effect. */
  long command(Text url, const json& body) {
    const auto key = std::to_string(getpid()) + "-" + std::to_string(Clock::now().time_since_epoch().count());
    for (Ms pause = 250ms;; pause = std::min<Ms>(2 * pause, 5s)) {
      for (asked.begin(url, body, "Idempotency-Key: " + key); asked.isUnderWay;) step();
      const auto said = at(asked.answer, asked.answer.contains("error") ? "/error" : "/decision/say");
      if (!said.empty()) std::fprintf(stderr, "%s\n", said.c_str());
      const bool isDecided = asked.status >= 200 && asked.status < 500 && asked.status != 401 && asked.status != 429;
      if (asked.status == 200) obey(asked.answer);
      if (isDecided || isEnding || isOver) return asked.status;
      const auto end = Clock::now() + msAt(asked.answer, "/retryAfterMs", pause, pause, 60s);
      while (Clock::now() < end && !isEnding && !isOver) step();
    }
  }

  /** Lets 20 ms pass, in which the sound and the requests go on. */
  void step() {
    play();
    for (const auto due = Clock::now() + 20ms; Clock::now() < due; takeEvents()) work(due - Clock::now());
  }

  /** Writes the next 20 ms of the song, if the floor lets them be heard. */
  void play() {
    if (gain == 0 || isEnding) return;
    std::int16_t block[RATE / 50] = {};
    const auto count = std::fread(block, 2, RATE / 50, song);
    for (auto& sample : block) sample = std::lround(sample * gain);
    if (count == 0 || std::fwrite(block, 2, count, stdout) < count || std::fflush(stdout) != 0) isEnding = 1;
  }

  /** Sounds as the session's state says. */
  void obey(Text state, double level) {
    const bool isHeard = state.rfind("active", 0) == 0 || state.rfind("ducked", 0) == 0;
    gain = isHeard ? std::pow(10, std::clamp(level, -60.0, 0.0) / 20) : 0;
    if (state == "archived" || state == "deleted") isOver = true;
    const auto at = level == 0 ? "" : " at " + std::to_string(std::lround(level)) + " dB";
    const auto before = std::exchange(shown, state.substr(0, state.find('.')) + at);
    if (shown == before) return;
    std::fprintf(stderr, "%.2f s: %s\n", double(std::ftell(song) - HEADER) / 2 / RATE, shown.c_str());
  }

  /** The state and the lease of an answer. A new stream goes on after it, so that nothing older comes later. */
  void obey(const json& answer) {
    stream.end(), streamDue = Clock::now(), position = at(answer, "/position");
    lease = msAt(answer, "/session/leaseMs", lease, 1s, 24h);
    obey(at(answer, "/session/state"), at(answer, "/session/level", 0.0));
  }

  /** Follows the session over any number of connections, each of which goes on after the last event. */
  void follow() {
    // Its user has moved it to another floor: it goes on there in a new session, and is not over with the former one.
    if (!movedTo.empty()) stream.end(), id = std::exchange(movedTo, ""), url = node + "/session/" + id, hasGap = true;
    // Events are missing in the log: the state is read instead.
    if (std::exchange(hasGap, false)) command(url, nullptr);
    if (stream.isUnderWay || Clock::now() < streamDue) return;
    // Nothing follows, or the session does not exist any more.
    if (stream.status == 204 || stream.status == 404) isOver = true;
    stream.begin(url + "/events", nullptr, "Last-Event-ID: " + position, 0s);
    streamDue = Clock::now() + wait, wait = std::min<Ms>(2 * wait, 5s);
  }

  /** Takes the events that have come as a whole. */
  void takeEvents() {
    for (std::size_t end; (end = stream.text.find("\n\n")) != std::string::npos; stream.text.erase(0, end + 2)) {
      std::istringstream lines(stream.text.substr(0, end));
      for (std::string line; std::getline(lines, line);) {
        if (line.rfind("id: ", 0) == 0) position = line.substr(4);
        if (line.rfind("data: ", 0) == 0) heed(json::parse(line.substr(6), nullptr, false));
      }
    }
  }

  void heed(const json& event) {
    const auto type = at(event, "/type");
    wait = 250ms;
    const auto reason = at(event, "/data/reason");
    if (reason == "moved" || reason == "superseded") movedTo = at(event, "/data/by/sessionId");
    if (!movedTo.empty()) return;
    if (type == "session_transition") obey(at(event, "/data/to"), at(event, "/data/level", 0.0));
    if (type == "reset") hasGap = true;
    if (type == "bye") streamDue = Clock::now() + msAt(event, "/data/reconnectInMs", wait, wait, 60s);
    if (type == "bye" && at(event, "/data/reason") == "ended") isOver = true;
  }

  /** Renews the lease three times in its length while the sound goes on; on a slow network, each may take longer. */
  void keepLease() {
    if (beat.isUnderWay) return;
    const auto next = at(beat.answer, "/replacedBy");
    if (!next.empty() && next != id) movedTo = next;
    if (beat.status == 404 || (next.empty() && at(beat.answer, "/errorCode") == "session_archived")) isOver = true;
    lease = msAt(beat.answer, "/leaseMs", lease, 1s, 24h);
    const bool wasLapsed = std::exchange(isLapsed, at(beat.answer, "/lapsed", beat.status != 200 && isLapsed));
    // Others may be heard by now, and only a request brings the session back. So it is after a crash of this program.
    if (isLapsed && !wasLapsed) gain = 0, command(url + "/activate", json::object());
    if (Clock::now() < lastBeat + lease / 3) return;
    lastBeat = Clock::now();
    beat.begin(node + "/message", {{"type", "heartbeat"}, {"sessionId", id}}, "", std::min<Ms>(lease * 3 / 5, 5s));
  }
};

int main(int argc, char** argv) {
  std::FILE* const song = argc == 6 ? std::fopen(argv[5], "rb") : nullptr;
  for (const int signal : {SIGTERM, SIGINT}) std::signal(signal, [](int) { isEnding = 1; });
  std::signal(SIGPIPE, SIG_IGN);
  if (song && std::fseek(song, HEADER, SEEK_SET) == 0) return Player(argv[1], argv[4], song).run(argv[2], argv[3]);
  return std::fprintf(stderr, "usage: player URL USER AGENT SESSION FILE.wav\n"), 2;
}
