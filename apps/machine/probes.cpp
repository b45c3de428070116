#include "apps/machine/probes.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/io_uring.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "apps/base/programs.hpp"
#include "apps/machine/machine.hpp"
#include "models/cuda/library_file.hpp"
#include "storage/memory/huge_memory.hpp"
#include "storage/memory/locked_memory.hpp"
#include "storage/queue/io_queue.hpp"

namespace troupe::apps {
namespace fs = std::filesystem;
namespace {

constexpr size_t block_bytes = 4096;

attempt outcome(bool good) { return {good, good ? "" : std::strerror(errno)}; }

// Opens a file without a name, so that even a kill leaves nothing behind; if the file system has no such files, opens a
// named one and unlinks it.
int open_scratch(const fs::path& folder, int flags) {
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) return fd;
  std::string name = (folder / ".troupe-doctor-XXXXXX").string();
  const int named = ::mkostemp(name.data(), O_CLOEXEC | flags);
  const int why = errno;
  if (named >= 0) ::unlink(name.c_str());
  errno = why;
  return named;
}

attempt try_write(const fs::path& folder, int flags) {
  const int fd = open_scratch(folder, flags);
  if (fd < 0) return outcome(false);
  const std::unique_ptr<void, decltype(&std::free)> block(std::aligned_alloc(block_bytes, block_bytes), &std::free);
  std::memset(block.get(), 0, block_bytes);
  const auto a = outcome(::pwrite(fd, block.get(), block_bytes, 0) == static_cast<ssize_t>(block_bytes));
  ::close(fd);
  return a;
}

}  // namespace

attempt try_io_uring() {
  io_uring_params parameters{};
  const long fd = ::syscall(SYS_io_uring_setup, 4, &parameters);
  const auto a = outcome(fd >= 0);
  if (fd >= 0) ::close(static_cast<int>(fd));
  return a;
}

queue_facts try_queue() {
  const auto pool = storage::huge_memory::allocate(storage::huge_memory::alignment_bytes);
  storage::io_queue_options options;
  if (pool) options.pools = {{pool->data(), pool->bytes()}};
  const auto queue = storage::make_queue(options);
  if (!queue) return {"", {queue.error().text}};
  return {(*queue)->name(), (*queue)->remarks()};
}

attempt try_lock(uint64_t bytes) {
  const auto memory = storage::huge_memory::allocate(bytes);
  if (!memory) return {false, memory.error().text};
  const auto refused = storage::lock_memory({memory->data(), memory->bytes()});
  return {!refused, refused.value_or("")};
}

folder_facts try_folder(const fs::path& path) {
  folder_facts f;
  std::error_code e;
  f.path = fs::absolute(path, e).lexically_normal();
  if (!f.path.has_filename()) f.path = f.path.parent_path();
  const auto asked_for = f.path;
  if (fs::exists(f.path, e) && !fs::is_directory(f.path, e)) {
    f.write.why = std::strerror(ENOTDIR);
    return f;
  }
  if (!fs::exists(f.path, e)) f.path = f.path.parent_path();
  if (!fs::is_directory(f.path, e)) {
    f.asked_for = asked_for;
    return f;
  }
  if (auto real = fs::canonical(f.path, e); !e) f.path = real;
  f.file_system = file_system_of("/", f.path);
  struct statvfs space {};
  if (::statvfs(f.path.c_str(), &space) == 0) f.free_bytes = uint64_t{space.f_bavail} * space.f_frsize;
  f.write = try_write(f.path, 0);
  f.direct = try_write(f.path, O_DIRECT);
  return f;
}

cuda_facts try_cuda() {
  cuda_facts c;
  // The library is never closed, since the driver does not tolerate that.
  void* library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    c.start.why = "there is no libcuda.so.1";
    return c;
  }
  c.loaded = true;
  const auto init = reinterpret_cast<int (*)(unsigned)>(::dlsym(library, "cuInit"));
  const auto version = reinterpret_cast<int (*)(int*)>(::dlsym(library, "cuDriverGetVersion"));
  const auto count = reinterpret_cast<int (*)(int*)>(::dlsym(library, "cuDeviceGetCount"));
  const auto name = reinterpret_cast<int (*)(char*, int, int)>(::dlsym(library, "cuDeviceGetName"));
  if (init == nullptr || version == nullptr || count == nullptr || name == nullptr) {
    c.start.why = "libcuda.so.1 lacks cuInit, cuDriverGetVersion, cuDeviceGetCount or cuDeviceGetName";
    return c;
  }
  int v = 0;
  if (version(&v) == 0) c.version = fmt::format("{}.{}", v / 1000, v % 1000 / 10);
  const int started = init(0);
  c.start = {started == 0, started == 0 ? "" : fmt::format("cuInit returned {}", started)};
  int n = 0;
  if (started != 0 || count(&n) != 0) return c;
  for (int i = 0; i < n; ++i) {
    char text[128] = "";
    if (name(text, sizeof text, i) == 0) c.devices.emplace_back(text);
  }
  return c;
}

fs::path cuda_opener_folder() {
  const fs::path here = own_folder();
  const auto trainer = trainer_program(here, "troupe train");
  return trainer ? trainer->parent_path() : here;
}

cuda_library_facts try_cuda_library(const fs::path& folder) {
  cuda_library_facts c;
  c.at = models::find_cuda_library(folder).string();
  if (c.at.empty()) return c;
  c.open.good = ::dlopen(c.at.c_str(), RTLD_LAZY | RTLD_LOCAL) != nullptr;  // never closed: CUDA does not tolerate it
  if (c.open.good) return c;
  const char* const said = ::dlerror();
  c.open.why = said == nullptr ? "" : said;
  return c;
}

}  // namespace troupe::apps
