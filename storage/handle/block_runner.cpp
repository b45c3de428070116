#include "storage/handle/block_runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/math.hpp"

namespace troupe::storage {

namespace {

core::error cut_short(const block_job& job, uint64_t from, uint64_t wanted, uint64_t got) {
  return {core::error_kind::io, fmt::format("{}: read at {}: wanted {} bytes, got {}: the file ends there",
                                            job.on.path().string(), from, wanted, got)};
}

}  // namespace

core::result<std::unique_ptr<block_runner>> block_runner::open(const block_runner_options& options) {
  if (options.block_bytes < direct_grain_bytes || options.block_bytes > request_bytes_max ||
      options.block_bytes % direct_grain_bytes != 0)
    return core::fail(core::error_kind::bad_input,
                      fmt::format("wanted a block size that is a multiple of {} bytes and at most {}, got {}",
                                  direct_grain_bytes, request_bytes_max, options.block_bytes));
  TROUPE_ASSIGN(auto queue, make_queue(options.queue));
  return std::unique_ptr<block_runner>(new block_runner(options, std::move(queue)));
}

block_runner::block_runner(const block_runner_options& options, std::unique_ptr<io_queue> queue)
    : options_(options), queue_(std::move(queue)), slots_(queue_->depth()) {
  for (uint32_t i = queue_->depth(); i > 0; --i) idle_slots_.push_back(i - 1);
}

void block_runner::add(block_job job) {
  auto a = std::make_shared<active>();
  a->job = std::move(job);
  waiting_.push_back(std::move(a));
}

bool block_runner::full() const {
  if (queue_->in_flight() == 0) return false;
  return idle_slots_.empty() || !options_.overlap_events || !waiting_.empty();
}

// Transfers bytes [from, to) of the file, an unaligned edge of the job, through a buffered descriptor of the same file.
core::result<void> block_runner::edge(active& a, uint64_t from, uint64_t to) {
  if (from >= to) return {};
  const auto& job = a.job;
  const auto memory = job.memory.subspan(from - job.offset, to - from);
  const bool reads = job.kind == io_kind::read;
  TROUPE_ASSIGN(const auto through,
                job.on.reopened(reads ? file_access::read : file_access::read_write, file_mode::buffered));
  if (!reads) {
    TROUPE_TRY(through.write_at(from, memory));
  } else {
    TROUPE_ASSIGN(const auto got, through.read_at(from, memory));
    if (got < memory.size()) return core::fail(cut_short(job, from, memory.size(), got));
  }
  a.bytes += memory.size();
  return {};
}

void block_runner::start(active& a) {
  a.started = true;
  const auto& job = a.job;
  const uint64_t to = job.offset + job.memory.size();
  a.next = job.offset;
  a.end = to;
  if (job.on.mode() == file_mode::buffered) return;
  const uint64_t grain = std::max<uint64_t>(direct_grain_bytes, job.on.alignment().offset_bytes);
  if (options_.block_bytes % grain != 0) {
    a.error = core::error{core::error_kind::bad_input,
                          fmt::format("{}: wanted blocks of a multiple of {} bytes for direct I/O, got {}",
                                      job.on.path().string(), grain, options_.block_bytes)};
    return;
  }
  a.next = std::min(core::round_up(job.offset, grain), to);
  a.end = std::max(a.next, to - to % grain);
  for (const auto& [from, until] : {std::pair(job.offset, a.next), std::pair(a.end, to)})
    if (auto done = edge(a, from, until); !done) {
      a.error = done.error();
      return;
    }
}

// Sets the memory of the block's transfer: the caller's memory if it is aligned, else a bounce block. Returns false if
// no bounce block is free.
core::result<bool> block_runner::place(slot& s, const file& on, io_kind kind) {
  s.transfer = s.memory;
  s.bounce = -1;
  if (reinterpret_cast<uintptr_t>(s.memory.data()) % on.alignment().memory_bytes == 0) return true;
  if (bounce_.bytes() == 0) {
    const unsigned blocks = std::min(queue_->depth(), bounce_blocks_max);
    TROUPE_ASSIGN(auto room, huge_memory::allocate(blocks * options_.block_bytes));
    bounce_ = std::move(room);
    for (unsigned i = blocks; i > 0; --i) idle_bounces_.push_back(static_cast<int>(i - 1));
  }
  if (idle_bounces_.empty()) return false;
  s.bounce = idle_bounces_.back();
  idle_bounces_.pop_back();
  s.transfer = {bounce_.data() + static_cast<uint64_t>(s.bounce) * options_.block_bytes, s.memory.size()};
  if (kind == io_kind::write) std::memcpy(s.transfer.data(), s.memory.data(), s.memory.size());
  return true;
}

void block_runner::fill(std::vector<block_job_end>& out) {
  if (!options_.overlap_events && queue_->in_flight() > 0) return;
  batch_.clear();
  while (!waiting_.empty() && !idle_slots_.empty()) {
    const auto a = waiting_.front();
    if (!a->started) start(*a);
    if (a->error || a->next == a->end) {
      waiting_.pop_front();
      a->in_row = false;
      if (a->in_flight == 0) end(*a, out);
      continue;
    }
    const uint32_t index = idle_slots_.back();
    auto& s = slots_[index];
    s.memory = a->job.memory.subspan(a->next - a->job.offset, std::min(options_.block_bytes, a->end - a->next));
    const auto placed = place(s, a->job.on, a->job.kind);
    if (!placed) {
      a->error = placed.error();
      continue;
    }
    if (!*placed) break;
    idle_slots_.pop_back();
    s.of = a;
    ++a->in_flight;
    batch_.push_back({a->job.kind, a->job.on, a->next, s.transfer, index});
    a->next += s.memory.size();
  }
  const size_t at_once = options_.single_submit ? 1 : std::max<size_t>(batch_.size(), 1);
  for (size_t i = 0; i < batch_.size(); i += at_once)
    // The queue refuses a batch as a whole, so each block of the batch ends with the queue's error.
    if (auto begun = queue_->submit(std::span(batch_).subspan(i, at_once)); !begun)
      for (const auto& r : std::span(batch_).subspan(i, at_once)) over({r.token, 0, begun.error()}, out);
}

void block_runner::over(const io_completion& c, std::vector<block_job_end>& out) {
  auto& s = slots_[c.token];
  const auto a = std::move(s.of);
  const bool reads = a->job.kind == io_kind::read;
  a->bytes += c.bytes;
  --a->in_flight;
  if (c.error && !a->error) a->error = c.error;
  if (!c.error && c.bytes < s.memory.size() && !a->error)
    a->error = cut_short(a->job, a->job.offset + static_cast<uint64_t>(s.memory.data() - a->job.memory.data()),
                         s.memory.size(), c.bytes);
  if (s.bounce >= 0) {
    if (reads && c.bytes > 0) std::memcpy(s.memory.data(), s.transfer.data(), c.bytes);
    idle_bounces_.push_back(s.bounce);
  }
  idle_slots_.push_back(static_cast<uint32_t>(c.token));
  // Reports the end of a job here only if the job is no longer in waiting_; else fill() removes and reports it.
  if (a->in_flight == 0 && !a->in_row) end(*a, out);
}

void block_runner::advance(bool block, std::vector<block_job_end>& out) {
  const size_t before = out.size();
  fill(out);
  completions_.clear();
  if (block && out.size() == before)
    queue_->wait(completions_);
  else
    queue_->poll(completions_);
  if (completions_.empty()) return;
  for (const auto& c : completions_) over(c, out);
  fill(out);
}

}  // namespace troupe::storage
