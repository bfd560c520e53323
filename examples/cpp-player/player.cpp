// A player that takes part on a floor of Interlock. docs/use/cpp.md explains it.
//   g++ -std=c++17 -Wall -Wextra -Werror player.cpp -o player -lcurl
//   ./player http://127.0.0.1:3000 ann music_agent song-1 song.wav | pacat --rate=22050 --channels=1
#include <curl/curl.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

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
    if (!token.empty()) token = "Authorization: Bearer " + token;
    for (Text each : {std::string("Content-Type: application/json"), token, header})
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
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, this);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, +[](char* bytes, std::size_t, std::size_t count, Request* request) {
      return request->text.append(bytes, count).size() <= MAX_BYTES ? count : 0;
    });
    isUnderWay = curl_multi_add_handle(requests, curl) == CURLM_OK;
  }
  /** Its answer counts, with a status if it has come as a whole. */
  void end(CURLcode result = CURLE_PARTIAL_FILE) {
    if (result == CURLE_OK) curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_multi_remove_handle(requests, curl);
    isUnderWay = false, answer = json::parse(text, nullptr, false);
  }
};

/** One session, and the song that it lets be heard. */
struct Player {
  const std::string node;
  std::FILE* const song;
  std::string id, url = node + "/session/" + id, position = "", coming = "", shown = "";
  /** The factor of the samples: 0 if the floor lets nothing be heard. */
  double gain = 0;
  Request asked{}, stream{}, beat{};
  Ms lease = 30s, wait = 250ms;
  Clock::time_point streamDue{}, lastBeat{};
  bool isOver = false, isLapsed = false, isUnread = false;

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
    const auto key = id + "-" + std::to_string(std::chrono::system_clock::now().time_since_epoch().count());
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
    int count = 0;
    for (const auto due = Clock::now() + 20ms; Clock::now() < due; takeEvents()) {
      curl_multi_poll(requests, nullptr, 0, std::chrono::ceil<Ms>(due - Clock::now()).count(), nullptr);
      curl_multi_perform(requests, &count);
      while (const CURLMsg* done = curl_multi_info_read(requests, &count))
        for (Request* each : {&asked, &stream, &beat})
          if (each->curl == done->easy_handle) each->end(done->data.result);
    }
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
    const double place = double(std::ftell(song) - HEADER) / 2 / RATE;
    if (shown != before) std::fprintf(stderr, "%.2f s: %s\n", place, shown.c_str());
  }

  /** The state and the lease of an answer. A new stream goes on after it, so that nothing older comes later. */
  void obey(const json& answer) {
    stream.end(), streamDue = Clock::now(), position = at(answer, "/position");
    lease = msAt(answer, "/session/leaseMs", lease, 1s, 24h);
    const auto next = at(answer, "/session/replacedBy");
    if (next.empty()) return obey(at(answer, "/session/state"), at(answer, "/session/level", 0.0));
    // Its user has moved it to another floor: it goes on there, and is not over with the former session.
    id = next, url = node + "/session/" + id, isUnread = true;
  }

  /** Follows the session over any number of connections, each of which goes on after the last event. */
  void follow() {
    if (std::exchange(isUnread, false)) command(url, nullptr);
    if (isUnread || stream.isUnderWay || Clock::now() < streamDue) return;
    // Nothing follows, or the session does not exist any more.
    if (stream.status == 204 || stream.status == 404) isOver = true;
    stream.begin(url + "/events", nullptr, "Last-Event-ID: " + position, 0s), coming = position;
    streamDue = Clock::now() + wait, wait = std::min<Ms>(2 * wait, 5s);
  }

  /** Takes the lines of the stream that have come as a whole. An event ends with an empty one. */
  void takeEvents() {
    for (std::size_t end; (end = stream.text.find('\n')) != std::string::npos; stream.text.erase(0, end + 1)) {
      const auto line = stream.text.substr(0, end);
      if (line.rfind("id: ", 0) == 0) coming = line.substr(4);
      if (line.rfind("data: ", 0) == 0) heed(json::parse(line.substr(6), nullptr, false));
      if (line.empty()) position = coming;
    }
  }

  void heed(const json& event) {
    const auto type = at(event, "/type"), reason = at(event, "/data/reason");
    wait = 250ms;
    // Events are missing in the log, or another session goes on: the state is read.
    if (type == "reset" || reason == "moved" || reason == "superseded") isUnread = true;
    else if (type == "session_transition") obey(at(event, "/data/to"), at(event, "/data/level", 0.0));
    if (type == "bye") streamDue = Clock::now() + msAt(event, "/data/reconnectInMs", wait, wait, 60s);
  }

  /** Renews the lease three times in its length while the sound goes on; on a slow network, each may take longer. */
  void keepLease() {
    if (beat.isUnderWay) return;
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
  for (const int signal : {SIGTERM, SIGINT, SIGPIPE}) std::signal(signal, [](int) { isEnding = 1; });
  if (song && std::fseek(song, HEADER, SEEK_SET) == 0) return Player{argv[1], song, argv[4]}.run(argv[2], argv[3]);
  return std::fprintf(stderr, "usage: player URL USER AGENT SESSION FILE.wav\n"), 2;
}
