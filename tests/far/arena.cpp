#include "tests/far/arena.hpp"

#include <execinfo.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

namespace troupe::far {
namespace {

constexpr uint64_t arena_bytes = uint64_t{1} << 34;  // size of the reserved address space, most of which has no memory
constexpr uint64_t page_bytes = 4096;
constexpr int freed_pattern = 0xFF;  // freed bytes are set to it; in every floating type the pattern is NaN

uint64_t rounded(uint64_t bytes) { return (bytes + page_bytes - 1) / page_bytes * page_bytes; }

std::byte* mapped(int file, int rights) {
  void* const got = mmap(nullptr, arena_bytes, rights, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (got == MAP_FAILED) std::abort();
  return static_cast<std::byte*>(got);
}

class arena {
 public:
  explicit arena(bool has_host_address) {
    const int file = memfd_create("far", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, static_cast<off_t>(arena_bytes)) != 0) std::abort();
    open_ = mapped(file, PROT_READ | PROT_WRITE);
    given_ = has_host_address ? open_ : mapped(file, PROT_NONE);
    close(file);
  }

  [[nodiscard]] bool has(const void* p) const {
    const auto* const b = static_cast<const std::byte*>(p);
    return b >= given_ && b < given_ + arena_bytes;
  }
  [[nodiscard]] std::byte* open(const void* p) const { return open_ + (static_cast<const std::byte*>(p) - given_); }

  std::byte* take(uint64_t size, filled with) {
    std::byte* out = nullptr;
    {
      const std::lock_guard guard(lock_);
      if (auto& same = free_[size]; !same.empty()) {
        out = same.back();
        same.pop_back();
      } else {
        if (used_ + size > arena_bytes) std::abort();
        out = given_ + used_;
        used_ += size;
      }
    }
    std::memset(open(out), with == filled::zeros ? 0 : freed_pattern, size);
    return out;
  }

  void give(std::byte* at, uint64_t size) {
    std::memset(open(at), freed_pattern, size);
    const std::lock_guard guard(lock_);
    free_[size].push_back(at);
  }

 private:
  std::byte* open_ = nullptr;
  std::byte* given_ = nullptr;
  uint64_t used_ = 0;
  std::map<uint64_t, std::vector<std::byte*>> free_;  // freed pieces by their size in bytes
  std::mutex lock_;
};

void say_frames() {
  void* frames[48];
  backtrace_symbols_fd(frames, backtrace(frames, 48), STDERR_FILENO);
}

void say_touch(int signal, siginfo_t* info, void* context);

struct arenas {
  arena device{false}, pinned{true}, pageable{true};

  arenas() {
    void* warm[1];
    backtrace(warm, 1);  // the first call loads libraries, which the signal handler may not do
    struct sigaction action {};
    action.sa_sigaction = say_touch;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &action, nullptr);
  }

  arena& at(side where) { return where == side::device ? device : where == side::pinned ? pinned : pageable; }
};

arenas& all() {
  static arenas* const kept = new arenas;  // never freed, because threads may end after main
  return *kept;
}

// Reports the forbidden access and ends the program; calls only functions that a signal handler may call.
void say_touch(int /*signal*/, siginfo_t* info, void* /*context*/) {
  if (all().device.has(info->si_addr)) {
    dprintf(STDERR_FILENO, "memory of the device was touched by the host:\n");
    say_frames();
    _exit(1);
  }
  std::signal(SIGSEGV, SIG_DFL);  // for any other fault, the instruction is executed again and ends the program
}

}  // namespace

std::byte* take(side where, uint64_t bytes, filled with) { return all().at(where).take(rounded(bytes), with); }

void give(side where, std::byte* at, uint64_t bytes) { all().at(where).give(at, rounded(bytes)); }

std::byte* for_device(const void* at, const char* work) {
  if (at == nullptr) return nullptr;
  if (all().device.has(at)) return all().device.open(at);
  if (all().pinned.has(at)) return all().pinned.open(at);
  dprintf(STDERR_FILENO, "%s of the device was given %s:\n", work,
          all().pageable.has(at) ? "memory of the host that is not pinned" : "memory that no device has allocated");
  say_frames();
  _exit(1);
}

side side_of(const void* at) {
  if (all().device.has(at)) return side::device;
  return all().pinned.has(at) ? side::pinned : side::pageable;
}

std::byte* for_copy(const void* at) {
  if (all().device.has(at)) return all().device.open(at);
  return const_cast<std::byte*>(static_cast<const std::byte*>(at));
}

}  // namespace troupe::far
