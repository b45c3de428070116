// The standard output and error of a program that runs a job. What is printed goes into memory and a thread hands it
// on, so that a pipe that nobody reads, a terminal that is held or a full disk delays neither a step nor the end. Owns
// what waits, how much of it is kept and how long the end waits for a reader.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace troupe::apps {

/// Bytes that wait for a reader at most; whole lines beyond that are left out.
inline constexpr size_t output_waits_bytes_max = size_t{1} << 20;
/// How long the end of a program waits for a reader that takes nothing.
inline constexpr std::chrono::milliseconds output_patience{2000};

/// One descriptor, which somebody else may hold up. Any thread writes.
class output_relay {
 public:
  using heard = std::function<void(const std::string&)>;

  /// Throws std::system_error where the system refuses the thread. `name`: of the stream, in sentences.
  output_relay(int descriptor, std::string name);
  ~output_relay();  ///< waits for nobody
  output_relay(const output_relay&) = delete;
  output_relay& operator=(const output_relay&) = delete;

  void write(std::string_view bytes);
  /// Waits while a reader takes what is left, and for `patience` where none does.
  void drain(std::chrono::milliseconds patience);
  /// Why something has not been taken, such as "No space left on device"; empty: all was.
  [[nodiscard]] std::string loss() const;
  /// `tell` hears once that something is lost, from any thread; at once where that is so already. Null: nobody.
  void on_loss(heard tell);

 private:
  struct shared;
  std::shared_ptr<shared> state_;  ///< with the thread, which the system may hold for longer than this lives
};

/// `stdout`, `stderr` and their C++ streams through relays, for as long as this lives.
class console {
 public:
  console();  ///< where the system has no threads left, everything stays as it is
  ~console();
  console(const console&) = delete;
  console& operator=(const console&) = delete;

  /// A sentence for the run's log, where its output is not taken.
  void on_loss(output_relay::heard tell);
  /// Hands on what is left and gives the streams back: `code`, or 1 instead of 0 where standard output has not taken
  /// everything. A terminal counts as having taken it. Later calls change nothing.
  int end(int code);

 private:
  struct streams;
  streams* now_ = nullptr;  ///< never freed: a thread may still print while the program ends
  streams* before_ = nullptr;
};

}  // namespace troupe::apps
