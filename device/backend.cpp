#include "device/backend.hpp"

#include <array>
#include <atomic>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "core/clock.hpp"
#include "storage/memory/huge_memory.hpp"
#include "storage/memory/locked_memory.hpp"
#include "storage/memory/memory_room.hpp"

namespace troupe::device {
namespace {

/// Size of ordinary pages in bytes, to which the CPU's memory is aligned at least; pools smaller than a huge page have
/// no larger alignment.
constexpr uint64_t page_bytes = 4096;

core::result<uint32_t> count() { return 1; }

core::result<void> check_one(uint32_t /*index*/) { return {}; }

const properties& facts(uint32_t /*index*/) {
  static const properties all = [] {
    const auto room = storage::all_memory();
    return properties{"cpu", page_bytes, room ? room->bytes : 0};
  }();
  return all;
}

core::result<block> allocate(uint32_t /*index*/, tier where, uint64_t bytes) {
  TROUPE_ASSIGN(auto made, storage::huge_memory::allocate(bytes));
  block out{.data = made.data(), .bytes = made.bytes()};
  if (where == tier::pinned) out.remark = storage::lock_memory({out.data, out.bytes});
  out.owner = std::make_shared<storage::huge_memory>(std::move(made));
  return out;
}

bool discard(void* owner) { return static_cast<storage::huge_memory*>(owner)->discard(); }

std::shared_ptr<void> make_stream(uint32_t /*index*/) { return nullptr; }

void copy(void* /*stream*/, std::byte* to, const std::byte* from, uint64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

void* make_current(void* /*stream*/) { return nullptr; }

// An event of the CPU stores the time at which it was recorded.
void record(void* /*stream*/, std::shared_ptr<void>& event) { event = std::make_shared<int64_t>(core::now_ns()); }
int64_t elapsed_ns(void* from, void* to) { return *static_cast<int64_t*>(to) - *static_cast<int64_t*>(from); }
void wait(void* /*stream*/, void* /*event*/) {}
core::result<void> finish(void* /*stream*/) { return {}; }
bool is_over(void* /*event*/) { return true; }
void finish_event(void* /*event*/) {}

const backend cpu_backend{.count = count,
                          .check = check_one,
                          .properties_of = facts,
                          .allocate = allocate,
                          .discard = discard,
                          .make_stream = make_stream,
                          .make_current = make_current,
                          .copy = copy,
                          .record = record,
                          .wait = wait,
                          .finish = finish,
                          .is_over = is_over,
                          .finish_event = finish_event,
                          .elapsed_ns = elapsed_ns};

constinit std::array<std::atomic<const backend*>, device_kinds> backends{&cpu_backend, nullptr};

}  // namespace

void provide(device_kind kind, const backend& b) { backends[static_cast<size_t>(kind)] = &b; }

const backend* provided(device_kind kind) { return backends[static_cast<size_t>(kind)]; }

const backend& backend_of(device_id device) {
  if (const backend* found = provided(device.kind)) return *found;
  throw std::logic_error("device " + name_of(device) + " is used without a check that this program provides it");
}

}  // namespace troupe::device
