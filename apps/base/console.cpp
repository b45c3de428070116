#include "apps/base/console.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>
#include <ext/stdio_sync_filebuf.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "apps/base/output_check.hpp"
#include "core/system_error.hpp"

namespace troupe::apps {

struct output_relay::shared {
  shared(int number, std::string who) : descriptor(number), name(std::move(who)) {}
  shared(const shared&) = delete;
  shared& operator=(const shared&) = delete;
  ~shared() { ::close(descriptor); }

  const int descriptor;
  const std::string name;
  mutable std::mutex mutex;
  std::condition_variable comes, goes;
  std::string waiting;
  size_t handed = 0;     ///< number of bytes that the relay's thread is writing now
  uint64_t taken = 0;    ///< number of bytes that have been written or refused so far
  bool begins = true;    ///< true: the next byte of output is the first of a line
  bool is_left = false;  ///< true: the current line of output is dropped
  bool ends = false;
  bool tells = false;  ///< true while a thread calls the function `tell`
  std::string loss;
  loss_listener tell;

  void work() {
    for (std::unique_lock lock(mutex);;) {
      comes.wait(lock, [this] { return ends || !waiting.empty(); });
      if (waiting.empty()) return;
      const std::string piece = std::exchange(waiting, {});
      handed = piece.size();
      lock.unlock();
      const int refused = put(piece);
      lock.lock();
      taken += std::exchange(handed, 0);
      if (refused != 0) lose(core::system_message(refused), lock);
      goes.notify_all();
    }
  }

  /// Writes `text`; returns 0, or the errno with which the rest of `text` was refused.
  int put(std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = ::write(descriptor, text.data(), text.size());
      if (n >= 0) {
        text.remove_prefix(static_cast<size_t>(n));
        const std::lock_guard lock(mutex);
        taken += static_cast<uint64_t>(n);
        handed -= static_cast<size_t>(n);
        goes.notify_all();
      } else if (errno == EAGAIN) {  // another program has made the pipe non-blocking
        pollfd on{descriptor, POLLOUT, 0};
        ::poll(&on, 1, -1);
      } else if (errno != EINTR) {
        return errno;
      }
    }
    return 0;
  }

  void lose(std::string why, std::unique_lock<std::mutex>& lock) {
    if (!loss.empty()) return;
    loss = std::move(why);
    tell_loss(lock);
  }
  void tell_loss(std::unique_lock<std::mutex>& lock) {
    if (loss.empty() || !tell) return;
    const auto told = std::exchange(tell, nullptr);
    const std::string line = name + " cannot be written (" + loss + "): the run continues without it";
    tells = true;
    lock.unlock();
    told(line);
    lock.lock();
    tells = false;
    goes.notify_all();
  }
};

namespace {

constexpr const char* nobody_reads = "it is not read";
// `\r` counts as a line end, because a progress line ends there before it is rewritten
constexpr std::string_view line_ends = "\n\r";

/// Blocks all signals, so that no thread of the relays receives one.
class all_signals_blocked {
 public:
  all_signals_blocked() {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~all_signals_blocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  all_signals_blocked(const all_signals_blocked&) = delete;
  all_signals_blocked& operator=(const all_signals_blocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

output_relay::output_relay(int descriptor, std::string name)
    : state_(std::make_shared<shared>(::fcntl(descriptor, F_DUPFD_CLOEXEC, 3), std::move(name))) {
  const all_signals_blocked blocked;
  std::thread([state = state_] { state->work(); }).detach();
}

output_relay::~output_relay() {
  const std::lock_guard lock(state_->mutex);
  state_->ends = true;
  state_->tell = nullptr;
  state_->comes.notify_all();
}

void output_relay::write(std::string_view bytes) {
  auto& s = *state_;
  std::unique_lock lock(s.mutex);
  while (!bytes.empty()) {
    if (s.begins) s.is_left = s.waiting.size() + s.handed > output_waits_bytes_max;
    const size_t end = std::min(bytes.find_first_of(line_ends), bytes.size() - 1) + 1;
    s.begins = line_ends.find(bytes[end - 1]) != std::string_view::npos;
    if (s.is_left)
      s.lose(nobody_reads, lock);
    else
      s.waiting.append(bytes.substr(0, end));
    bytes.remove_prefix(end);
  }
  s.comes.notify_one();
}

void output_relay::drain(std::chrono::milliseconds patience) {
  auto& s = *state_;
  std::unique_lock lock(s.mutex);
  const auto is_empty = [&s] { return s.waiting.empty() && s.handed == 0; };
  while (!is_empty()) {
    const uint64_t before = s.taken;
    if (s.goes.wait_for(lock, patience, [&] { return is_empty() || s.taken != before; })) continue;
    s.waiting.clear();
    return s.lose(nobody_reads, lock);
  }
}

std::string output_relay::loss() const {
  const std::lock_guard lock(state_->mutex);
  return state_->loss;
}

void output_relay::on_loss(loss_listener tell) {
  std::unique_lock lock(state_->mutex);
  // Waits for a running call of the previous function, which the caller may destroy afterwards
  state_->goes.wait(lock, [this] { return !state_->tells; });
  state_->tell = std::move(tell);
  state_->tell_loss(lock);
}

struct console::streams {
  std::FILE* files[2] = {stdout, stderr};
  std::streambuf* buffers[2] = {std::cout.rdbuf(), std::cerr.rdbuf()};
  std::unique_ptr<output_relay> out{}, err{};

  void use() const {
    stdout = files[0];
    stderr = files[1];
    std::cout.rdbuf(buffers[0]);
    std::cerr.rdbuf(buffers[1]);
  }
};

namespace {

std::FILE* stream_into(output_relay& relay, int buffering) {
  cookie_io_functions_t how{};
  how.write = [](void* to, const char* bytes, size_t size) {
    static_cast<output_relay*>(to)->write({bytes, size});
    return static_cast<ssize_t>(size);
  };
  std::FILE* const out = ::fopencookie(&relay, "w", how);
  if (out != nullptr) std::setvbuf(out, nullptr, buffering, BUFSIZ);
  return out;
}

}  // namespace

console::console() {
  std::fflush(stdout);
  auto now = std::make_unique<streams>();
  try {
    now->out = std::make_unique<output_relay>(STDOUT_FILENO, "standard output");
    now->err = std::make_unique<output_relay>(STDERR_FILENO, "standard error");
  } catch (const std::system_error&) {
    return;
  }
  output_relay* const relays[] = {now->out.get(), now->err.get()};
  for (size_t i = 0; i < 2; ++i) {
    now->files[i] = stream_into(*relays[i], i == 0 ? _IOFBF : _IONBF);
    if (now->files[i] == nullptr) return;
    now->buffers[i] = new __gnu_cxx::stdio_sync_filebuf<char>(now->files[i]);
  }
  before_ = new streams;
  now_ = now.release();
  now_->use();
  static std::vector<streams*>& kept = *new std::vector<streams*>;  // keeps the streams reachable for leak checks
  kept.insert(kept.end(), {now_, before_});
}

console::~console() { end(0); }

void console::on_loss(output_relay::loss_listener tell) {
  if (now_ != nullptr) now_->out->on_loss(std::move(tell));
}

namespace {

std::chrono::milliseconds patience_for(int descriptor) {
  struct stat about {};
  return ::fstat(descriptor, &about) == 0 && S_ISREG(about.st_mode) ? file_patience : output_patience;
}

}  // namespace

int console::end(int code) {
  if (before_ == nullptr) return code;
  std::cout.flush();
  std::fflush(stdout);
  now_->out->drain(patience_for(STDOUT_FILENO));
  const std::string lost = ::isatty(STDOUT_FILENO) != 0 ? std::string() : now_->out->loss();
  if (!lost.empty()) code = code_of_lost_output(code, lost);
  now_->err->drain(patience_for(STDERR_FILENO));
  std::exchange(before_, nullptr)->use();
  return code;
}

}  // namespace troupe::apps
