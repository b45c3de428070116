#include "actors/opening/memory_need.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.hpp"
#include "device/properties.hpp"
#include "plan/memory_places.hpp"

namespace troupe::actors {

namespace {

std::string file_of(const job::blueprint& b) {
  return b.config->file.empty() ? std::string("FILE") : b.config->file.string();
}

core::result<void> check_device_memory(const job::blueprint& b) {
  const device::device_id device = device_of(*b.config);
  if (!device::check(device)) return {};
  const uint64_t needed = room_of(b).pool_bytes();
  const auto& facts = device::properties_of(device);
  if (facts.total_bytes == 0 || needed <= facts.total_bytes) return {};
  return core::fail(
      core::error_kind::limit,
      fmt::format("memory: the states of {} parameters on {} ranks need {} of device {}, which has {}; `troupe plan {} "
                  "--fit --memory {}MiB` looks for tiers that fit (zero_optimization.offload_*)",
                  b.table->numel(), b.train.ranks(), core::human_bytes(needed), facts.name,
                  core::human_bytes(facts.total_bytes), file_of(b), facts.total_bytes >> 20));
}

}  // namespace

device_room room_of(const job::blueprint& b) {
  const uint64_t there = device::properties_of(device_of(*b.config)).total_bytes, limit = b.config->cuda.memory_limit;
  device_room out(limit == 0 || there == 0 ? std::max(limit, there) : std::min(limit, there), file_of(b));
  for (uint32_t r = 0; r < b.train.ranks(); ++r) out.add(b.train.like(r).memory, b.train.like(r).options().tiers);
  return out;
}

uint64_t needed_bytes(const job::blueprint& b) {
  uint64_t out = 0;
  for (uint32_t r = 0; r < b.train.ranks(); ++r) {
    const auto& p = b.train.like(r);
    out += plan::budgeted_bytes(p.memory, p.options().tiers) - p.memory.staging;
  }
  return out;
}

core::result<void> check_memory(const job::blueprint& b, const std::optional<storage::memory_room>& room) {
  TROUPE_TRY(check_device_memory(b));
  const uint64_t needed = needed_bytes(b);
  if (!room || needed <= room->bytes) return {};
  const auto there = room->bytes >> 20;
  return core::fail(
      core::error_kind::limit,
      fmt::format("memory: the states of {} parameters on {} ranks need {}, {} has {} left; `troupe plan {} --fit "
                  "--memory {}MiB` looks for tiers that fit (states in files, zero_optimization.offload_*)",
                  b.table->numel(), b.train.ranks(), core::human_bytes(needed), room->where,
                  core::human_bytes(room->bytes), file_of(b), there));
}

}  // namespace troupe::actors
