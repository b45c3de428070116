#include "storage/handle/throughput.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <latch>
#include <random>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "core/clock.hpp"
#include "core/math.hpp"

namespace troupe::storage {

namespace {

// One thread's part of a pass over the scratch file, and its result.
struct lane {
  uint64_t from = 0, to = 0;  // byte range [from, to) of the file
  std::span<std::byte> memory;
  core::result<void> ended;
  int64_t end_ns = 0;
  std::string engine;
  std::vector<std::string> remarks;
};

struct pass {
  const throughput_setting& setting;
  const file& on;
  io_kind kind;
  const std::function<bool()>& stop;

  [[nodiscard]] bool stopped() const { return stop && stop(); }

  // Keeps up to `queue_depth` requests in flight until all bytes of `part` are transferred.
  core::result<void> run(io_queue& queue, const lane& part) const {
    std::vector<uint64_t> idle;
    for (uint64_t i = setting.queue_depth; i > 0; --i) idle.push_back(i - 1);
    std::vector<io_completion> over;
    std::vector<io_request> batch;
    for (uint64_t next = part.from; next < part.to || queue.in_flight() > 0;) {
      if (stopped()) return core::fail(core::error_kind::stopped, "interrupted");
      batch.clear();
      if (setting.overlap_events || queue.in_flight() == 0)
        for (; next < part.to && !idle.empty(); next += setting.block_bytes) {
          const auto memory =
              part.memory.subspan(idle.back() * setting.block_bytes, std::min(setting.block_bytes, part.to - next));
          batch.push_back({kind, on, next, memory, idle.back()});
          idle.pop_back();
        }
      const size_t at_once = setting.single_submit ? 1 : std::max<size_t>(batch.size(), 1);
      for (size_t i = 0; i < batch.size(); i += at_once) TROUPE_TRY(queue.submit(std::span(batch).subspan(i, at_once)));
      over.clear();
      queue.wait(over);
      for (const auto& c : over) {
        if (c.error) return core::fail(*c.error);
        idle.push_back(c.token);
      }
    }
    return {};
  }

  // Executes one thread's part; called on that thread, because a queue belongs to the thread that opened it.
  void work(lane& part, std::latch& ready, std::latch& go) const {
    io_queue_options options;
    options.engine = setting.engine;
    options.depth = setting.queue_depth;
    options.threads = std::min(setting.queue_depth, queue_threads_max);
    if (setting.registered) options.pools = {part.memory};
    auto queue = make_queue(options);
    if (queue && setting.registered) (*queue)->keep(on);
    ready.count_down();
    go.wait();
    if (queue) {
      part.ended = run(**queue, part);
      part.end_ns = core::now_ns();
      part.engine = (*queue)->name();
      part.remarks = (*queue)->remarks();
    } else {
      part.ended = core::fail(queue.error());
    }
  }
};

core::result<file> scratch(const throughput_options& o) {
  const auto path = o.folder / fmt::format(".troupe-io-{}-{}", ::getpid(), core::now_ns());
  auto made = o.buffered ? file::open(path, file_access::create_new, file_mode::buffered, 0600)
                         : file::open_best(path, file_access::create_new, 0600);
  if (made) ::unlink(path.c_str());
  return made;
}

// True if the file is on a file system in memory, which newer kernels open for direct I/O, too.
bool in_memory(const file& f) {
  struct statfs about {};
  if (::fstatfs(f.descriptor(), &about) != 0) return false;
  return about.f_type == TMPFS_MAGIC || about.f_type == RAMFS_MAGIC;
}

std::string count(uint64_t n) { return fmt::to_string(n); }

}  // namespace

core::result<void> check(const throughput_setting& s) {
  const auto refuse = [](const char* what, uint64_t max, uint64_t got) {
    return core::fail(core::error_kind::bad_input,
                      std::string("wanted ") + what + " from 1 to " + count(max) + ", got " + count(got));
  };
  if (s.block_bytes < 1 || s.block_bytes > request_bytes_max)
    return refuse("a block size", request_bytes_max, s.block_bytes);
  if (s.queue_depth < 1 || s.queue_depth > queue_depth_max)
    return refuse("a queue depth", queue_depth_max, s.queue_depth);
  if (s.threads < 1 || s.threads > throughput_threads_max) return refuse("threads", throughput_threads_max, s.threads);
  return {};
}

uint64_t memory_bytes(const throughput_setting& s) { return s.block_bytes * s.queue_depth * s.threads; }

core::result<throughput_probe> throughput_probe::open(const throughput_options& options) {
  const std::string where = options.folder.string();
  if (options.bytes == 0) return core::fail(core::error_kind::bad_input, where + ": wanted a size above 0, got 0");
  std::error_code e;
  if (!std::filesystem::is_directory(options.folder, e))
    return core::fail(core::error_kind::bad_input,
                      where + ": is no folder" + (e ? " that can be read: " + e.message() : std::string()));
  throughput_probe out;
  out.options_ = options;
  out.options_.bytes = core::round_up(options.bytes, file::alignment_bytes_max);
  const auto space = std::filesystem::space(options.folder, e);
  if (!e && (space.available < throughput_spare_bytes || space.available - throughput_spare_bytes < out.options_.bytes))
    return core::fail(core::error_kind::no_space,
                      where + ": wanted " + count(out.options_.bytes) + " bytes for the scratch file and " +
                          count(throughput_spare_bytes) + " to spare, got " + count(space.available) + " free");
  TROUPE_ASSIGN(auto made, scratch(options));
  out.on_ = std::move(made);
  if (in_memory(out.on_))
    out.remark(where + ": the file system is in memory: the results measure memory, not a disk");
  else if (out.mode() == file_mode::buffered && !options.buffered)
    out.remark(where + ": the file system does not support direct I/O: the results measure its page cache, in memory");
  TROUPE_TRY(out.on_.preallocate(out.options_.bytes));
  TROUPE_TRY(out.fill());
  return out;
}

core::result<void> throughput_probe::fill() {
  throughput_setting setting;
  setting.queue_depth = 16;
  if (memory_bytes(setting) > bytes()) setting = {.block_bytes = file::alignment_bytes_max, .queue_depth = 1};
  TROUPE_TRY(measure(io_kind::write, setting));
  return on_.sync();
}

void throughput_probe::remark(const std::string& sentence) {
  if (std::find(remarks_.begin(), remarks_.end(), sentence) == remarks_.end()) remarks_.push_back(sentence);
}

core::result<void> throughput_probe::fits(const throughput_setting& s) const {
  TROUPE_TRY(check(s));
  const uint64_t sector = on_.alignment().offset_bytes;
  if (s.block_bytes % sector != 0)
    return core::fail(core::error_kind::bad_input, options_.folder.string() +
                                                       ": wanted a block size that is a multiple of " + count(sector) +
                                                       " bytes for direct I/O, got " + count(s.block_bytes));
  if (memory_bytes(s) > bytes())
    return core::fail(core::error_kind::limit, "wanted no more bytes in flight than the file has, " + count(bytes()) +
                                                   " bytes, got " + count(memory_bytes(s)));
  return {};
}

core::result<double> throughput_probe::measure(io_kind kind, const throughput_setting& setting) {
  TROUPE_TRY(fits(setting));
  const uint64_t each = memory_bytes(setting) / setting.threads;
  const uint64_t stride = core::round_up(each, huge_memory::alignment_bytes);
  if (memory_.bytes() < stride * setting.threads) {
    memory_ = {};
    TROUPE_ASSIGN(auto room, huge_memory::allocate(stride * setting.threads));
    memory_ = std::move(room);
    std::mt19937_64 noise(1);  // NOLINT: a constant seed, so that every pass writes equal bytes
    for (uint64_t at = 0; at < memory_.bytes(); at += sizeof(uint64_t)) {
      const uint64_t word = noise();
      std::memcpy(memory_.data() + at, &word, sizeof word);
    }
  }
  if (kind == io_kind::read && mode() == file_mode::buffered)
    ::posix_fadvise(on_.descriptor(), 0, 0, POSIX_FADV_DONTNEED);

  // Divides the file into disjoint parts, one per thread, that begin at block boundaries.
  std::vector<lane> lanes(setting.threads);
  const uint64_t blocks = core::div_up(bytes(), setting.block_bytes);
  for (uint64_t i = 0; i < setting.threads; ++i) {
    lanes[i].from = std::min(bytes(), blocks * i / setting.threads * setting.block_bytes);
    lanes[i].to = std::min(bytes(), blocks * (i + 1) / setting.threads * setting.block_bytes);
    lanes[i].memory = {memory_.data() + stride * i, each};
  }
  const pass all{setting, on_, kind, options_.stop};
  std::latch ready(static_cast<ptrdiff_t>(setting.threads)), go(1);
  std::vector<std::jthread> threads;
  try {
    for (auto& part : lanes) threads.emplace_back([&] { all.work(part, ready, go); });
  } catch (const std::system_error& e) {
    go.count_down();  // lets the started threads transfer their parts and end
    return core::fail(core::error_kind::limit,
                      "wanted " + count(setting.threads) + " threads, got " + count(threads.size()) + ": " + e.what());
  }
  ready.wait();
  const int64_t start = core::now_ns();
  go.count_down();
  threads.clear();  // joins the threads
  int64_t end = start + 1;
  for (auto& part : lanes) {
    TROUPE_TRY(part.ended);
    end = std::max(end, part.end_ns);
    engine_ = part.engine;
    for (const auto& r : part.remarks) remark(r);
  }
  if (kind == io_kind::write) {
    TROUPE_TRY(on_.sync());
    if (mode() == file_mode::buffered) end = core::now_ns();
  }
  return static_cast<double>(bytes()) * 1e9 / static_cast<double>(end - start);
}

}  // namespace troupe::storage
