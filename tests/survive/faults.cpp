// A library that is loaded before a program of a job (LD_PRELOAD) and disturbs it at a random instant with an
// unexpected exception or exit. Instants are counted in C++ allocations of all threads, because few instructions are
// between two of them. TROUPE_TEST_FAULT has the form "WHO ACTION NUMBER MARK". WHO is the number of a process in its
// job, or `front` for the program that has none. ACTION is `throw`, `exit` or `count`. NUMBER is the number of
// allocations, for `exit` followed by :CODE. MARK is a file that the fault creates, so that it happens only once;
// `count` writes the number of allocations into MARK when the program ends.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

enum class action : unsigned char { none, throws, exits, counts };

struct fault {
  action what = action::none;
  unsigned long number = 0;
  int code = 0;
  char mark[512] = {};
};

fault wanted;
std::atomic<unsigned long> allocations{0};

__attribute__((constructor)) void read_fault() {
  const char* const text = std::getenv("TROUPE_TEST_FAULT");
  const char* const link = std::getenv("TROUPE_LINK");
  if (text == nullptr) return;
  char who[16] = {}, what[16] = {};
  fault x;
  if (std::sscanf(text, "%15s %15s %lu:%d %511s", who, what, &x.number, &x.code, x.mark) != 5) return;
  const char* const place = link == nullptr ? "front" : std::strchr(link, ':') + 1;
  if (std::strcmp(who, place) != 0 || (::access(x.mark, F_OK) == 0 && std::strcmp(what, "count") != 0)) return;
  x.what = std::strcmp(what, "throw") == 0  ? action::throws
           : std::strcmp(what, "exit") == 0 ? action::exits
                                            : action::counts;
  wanted = x;
}

__attribute__((destructor)) void write_count() {
  if (wanted.what != action::counts) return;
  if (std::FILE* const out = std::fopen(wanted.mark, "w"); out != nullptr) {
    std::fprintf(out, "%lu", allocations.load());
    std::fclose(out);
  }
}

/// Counts an allocation. Returns true if this allocation must throw; ends the process instead if the fault is an exit.
bool meets() {
  if (wanted.what == action::none) return false;
  if (allocations.fetch_add(1, std::memory_order_relaxed) + 1 != wanted.number) return false;
  const int mark = ::open(wanted.mark, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (mark < 0) return false;
  ::close(mark);
  if (wanted.what == action::exits) ::_exit(wanted.code);
  return wanted.what == action::throws;
}

void* taken(std::size_t bytes, std::size_t alignment) {
  if (meets()) return nullptr;
  void* out = nullptr;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes == 0 ? 1 : bytes);
  return ::posix_memalign(&out, alignment, bytes) == 0 ? out : nullptr;
}

void* taken_or_thrown(std::size_t bytes, std::size_t alignment = 0) {
  void* const out = taken(bytes, alignment);
  if (out == nullptr) throw std::bad_alloc();
  return out;
}

}  // namespace

void* operator new(std::size_t bytes) { return taken_or_thrown(bytes); }
void* operator new[](std::size_t bytes) { return taken_or_thrown(bytes); }
void* operator new(std::size_t bytes, std::align_val_t a) {
  return taken_or_thrown(bytes, static_cast<std::size_t>(a));
}
void* operator new[](std::size_t bytes, std::align_val_t a) {
  return taken_or_thrown(bytes, static_cast<std::size_t>(a));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return taken(bytes, 0); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return taken(bytes, 0); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { std::free(p); }
