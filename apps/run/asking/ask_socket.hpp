// Owns the Unix socket in a run's folder on which its own user can ask questions, and the thread that serves it. A
// question is one line, the answer one line of JSON; then the connection ends. Leaves the answers to the caller.
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
/// Limits: bytes of a question, simultaneous questions, and nanoseconds in which a question must arrive.
inline constexpr size_t question_bytes_max = 4096, questions_max = 16;
inline constexpr int64_t question_ns_max = 10'000'000'000;
/// Time limit for sending an answer to a client, in nanoseconds.
inline constexpr int64_t answer_ns_max = 10'000'000'000;

/// Function that returns the answer once it exists; called several times a second until then.
using pending_answer = std::function<std::optional<std::string>()>;
/// Function that interprets a question. Called on the socket's thread and must not block. Its exception becomes the
/// answer's error.
using answering = std::function<pending_answer(const std::string& question)>;

class ask_socket {
 public:
  /// Opens the socket in an existing folder; replaces a socket that a dead run has left. Errors: bad_input if another
  /// run serves there; io, limit.
  static core::result<std::unique_ptr<ask_socket>> open(const std::filesystem::path& folder, answering answer);
  ~ask_socket();  ///< removes the socket's file
  ask_socket(const ask_socket&) = delete;
  ask_socket& operator=(const ask_socket&) = delete;

 private:
  struct client;
  ask_socket() = default;
  void serve();
  /// Reads from or writes to a client without blocking. Returns true if the connection stays open.
  bool go_on(client& c, bool ready) const;
  [[nodiscard]] pending_answer answer_to(const std::string& question) const;
  static bool send_rest(client& c);

  int folder_ = -1, socket_ = -1, stop_ = -1;
  answering answer_;
  std::thread thread_;
};

/// Asks the run whose folder this is, and returns its answer. Errors: bad_input if there is no such folder or no run in
/// it; io if the run ends before it answers.
core::result<std::string> ask_run(const std::filesystem::path& folder, const std::string& question);

}  // namespace troupe::apps
