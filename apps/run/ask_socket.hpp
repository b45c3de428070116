// Where a run is asked: a Unix socket in its folder, for its own user alone. A question is one line, the answer one
// line of JSON; then the connection ends. Owns the socket's file and the thread that serves it; answers are the
// caller's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "core/error.hpp"

namespace troupe::apps {

inline constexpr const char* socket_name = "troupe.sock";
/// Longest question, most that are asked at the same time, and how long one may take to come.
inline constexpr size_t question_bytes_max = 4096, questions_max = 16;
inline constexpr int64_t question_ns_max = 10'000'000'000;
/// How long an answer may take to leave.
inline constexpr int64_t answer_ns_max = 10'000'000'000;

/// The answer, once it is there: asked several times a second until then.
using pending_answer = std::function<std::optional<std::string>()>;
/// What a question means; called on the socket's thread, waits for nothing. What it throws is its answer's error.
using answering = std::function<pending_answer(const std::string& question)>;

class ask_socket {
 public:
  /// In a folder that exists; takes the place of a socket that a run has left. Errors: io, limit.
  static core::result<std::unique_ptr<ask_socket>> open(const std::filesystem::path& folder, answering answer);
  ~ask_socket();  ///< removes the file
  ask_socket(const ask_socket&) = delete;
  ask_socket& operator=(const ask_socket&) = delete;

 private:
  struct client;
  ask_socket() = default;
  void serve();
  /// Whether the client stays.
  bool go_on(client& c, bool ready) const;
  [[nodiscard]] pending_answer answer_to(const std::string& question) const;
  static bool send_rest(client& c);

  int folder_ = -1, socket_ = -1, stop_ = -1;
  answering answer_;
  std::thread thread_;
};

/// Asks the run whose folder this is and gives its answer. Errors: bad_input where there is no such folder or nothing
/// runs there; io where it ends meanwhile.
core::result<std::string> ask_run(const std::filesystem::path& folder, const std::string& question);

}  // namespace troupe::apps
