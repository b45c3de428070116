#include "actors/memory/offloaded_states.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/math.hpp"

namespace troupe::actors {
namespace {

using owner = plan::pool;

/// Name of the folder for offloaded states, below the folder for swap files, which the run may use at the same time.
constexpr const char* folder_name = "offloaded";

struct category {
  const char* name;
  owner pool;
};
constexpr category categories[] = {{"optim_states", owner::moments},
                                   {"hp_params", owner::master},
                                   {"lp_params", owner::parameters},
                                   {"lp_grads", owner::accumulated},
                                   {"contiguous_grad_buffer", owner::buckets}};

/// Returns the field of `t` that counts the bytes of pool `pool`.
uint64_t& counted(plan::memory_table& t, owner pool) {
  switch (pool) {
    case owner::moments:
      return t.moments;
    case owner::master:
      return t.master;
    case owner::parameters:
      return t.parameters;
    case owner::accumulated:
      return t.accumulated;
    default:
      return t.gradients;
  }
}

core::result<std::vector<owner>> owners_of(const std::vector<std::string>& include, const plan::plan_options& o) {
  std::vector<owner> out;
  for (const auto& c : categories)
    if (include.empty() || std::find(include.begin(), include.end(), c.name) != include.end()) {
      const bool own_master = c.pool == owner::master && o.master_is_parameter();
      out.push_back(own_master ? owner::parameters : c.pool);
    }
  for (const auto& name : include)
    if (std::none_of(std::begin(categories), std::end(categories), [&](const auto& c) { return c.name == name; }))
      return fail(error_kind::bad_input,
                  fmt::format("offload_states: include: wanted optim_states, hp_params, lp_params, lp_grads or "
                              "contiguous_grad_buffer, got '{}'",
                              name));
  // `hp_params` and `lp_params` may select the same pool, which must be moved only once.
  std::vector<owner> once;
  for (const auto x : out)
    if (std::find(once.begin(), once.end(), x) == once.end()) once.push_back(x);
  return once;
}

uint64_t file_bytes(const rank_memory& m, const std::vector<owner>& owners) {
  uint64_t bytes = 0;
  for (const auto x : owners) bytes += core::round_up(m.pool(x).bytes(), storage::swap_page_bytes);
  return bytes;
}

/// Calls `step` with the offset in the rank's file and the memory of each pool in `owners` that has bytes.
core::result<void> for_pools(const rank_memory& m, const std::vector<owner>& owners, auto step) {
  uint64_t offset = 0;
  for (const auto x : owners) {
    const auto& pool = m.pool(x);
    if (pool.bytes() == 0) continue;
    TROUPE_TRY(step(offset, pool));
    offset += core::round_up(pool.bytes(), storage::swap_page_bytes);
  }
  return {};
}

}  // namespace

core::result<std::unique_ptr<offloaded_states>> offloaded_states::offload(rank_memories ranks,
                                                                          const offload_request& request,
                                                                          page_digests digests) {
  auto out = std::make_unique<offloaded_states>();
  if (ranks.front()->device().kind != device::device_kind::cpu)
    return fail(error_kind::bad_input,
                fmt::format("offload_states: wanted states in memory of the host, got states on {}; set "
                            "zero_optimization.offload_optimizer.device to keep states off the device",
                            device::name_of(ranks.front()->device())));
  TROUPE_ASSIGN(auto owners, owners_of(request.include, ranks.front()->plan().options()));
  out->owners_ = std::move(owners);
  out->device_ = request.device;
  for (const auto& m : ranks) out->report_.moved_bytes += file_bytes(*m, out->owners_);
  if (request.device == plan::tier::cpu) return out;
  if (request.device != plan::tier::nvme)
    return fail(error_kind::bad_input,
                fmt::format("offload_states: device: wanted cpu or nvme, got {}", plan::name_of(request.device)));
  if (request.nvme_path.empty())
    return fail(error_kind::bad_input,
                "offload_states: nvme_path: wanted a folder, neither the call nor the "
                "configuration names one");
  if (out->report_.moved_bytes == 0) return out;
  TROUPE_ASSIGN(auto space, storage::swap_space::open({request.nvme_path / folder_name,
                                                       {{"offloaded states", out->report_.moved_bytes}},
                                                       digests == page_digests::kept}));
  out->space_ = std::move(space);
  for (const auto& m : ranks) {
    auto& file = out->files_.emplace_back();
    const uint64_t bytes = file_bytes(*m, out->owners_);
    if (bytes == 0) continue;
    TROUPE_ASSIGN(auto made, out->space_->create(fmt::format("rank-{}", m->plan().rank), bytes));
    file = std::move(made);
    TROUPE_TRY(for_pools(*m, out->owners_, [&](uint64_t offset, const device::memory& pool) {
      return file->write(offset, std::span<const std::byte>(pool.data(), pool.bytes()));
    }));
  }
  // Memory is released only now, when all states are in files.
  for (const auto& m : ranks)
    (void)for_pools(*m, out->owners_, [&](uint64_t, const device::memory& pool) -> core::result<void> {
      if (pool.discard()) out->report_.freed_bytes += pool.bytes();
      return {};
    });
  return out;
}

core::result<void> offloaded_states::reload(rank_memories ranks) {
  for (size_t r = 0; r < files_.size(); ++r) {
    if (files_[r] == nullptr) continue;
    auto ok = for_pools(*ranks[r], owners_, [&](uint64_t offset, const device::memory& pool) {
      return files_[r]->read(offset, std::span(pool.data(), pool.bytes()));
    });
    if (!ok) return ok;
  }
  return {};
}

uint64_t offloaded_states::adjust(plan::memory_table& resident) const {
  uint64_t total = 0;
  for (const auto x : owners_) {
    if (device_ == plan::tier::cpu)
      total += counted(resident, x);
    else
      counted(resident, x) = 0;
  }
  return total;
}

}  // namespace troupe::actors
