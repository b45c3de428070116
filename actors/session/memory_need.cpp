#include "actors/session/memory_need.hpp"

#include <fmt/format.h>

#include "core/text.hpp"

namespace troupe::actors {

uint64_t needed_bytes(const job::blueprint& b) {
  uint64_t out = 0;
  for (uint32_t r = 0; r < b.train.ranks(); ++r) {
    const auto& memory = b.train.like(r).memory;
    out += memory.states() - memory.staging;
  }
  return out;
}

core::result<void> check_memory(const job::blueprint& b, const std::optional<storage::memory_room>& room) {
  const uint64_t needed = needed_bytes(b);
  if (!room || needed <= room->bytes) return {};
  const auto file = b.config->file.empty() ? std::string("FILE") : b.config->file.string();
  const auto there = room->bytes >> 20;
  return core::fail(
      core::error_kind::limit,
      fmt::format("memory: the states of {} parameters on {} ranks need {}, {} has {} left; `troupe plan {} --fit "
                  "--memory {}MiB` looks for tiers that fit (states in files, zero_optimization.offload_*)",
                  b.table->numel(), b.train.ranks(), core::human_bytes(needed), room->where,
                  core::human_bytes(room->bytes), file, there));
}

}  // namespace troupe::actors
