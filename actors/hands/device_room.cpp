#include "actors/hands/device_room.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/text.hpp"

namespace troupe::actors {
namespace {

/// Returns "2.00 GiB more" for "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has ..."; "more" if the text has
/// no amount.
std::string wanted_by_torch(std::string_view said) {
  constexpr std::string_view before = "Tried to allocate ";
  const size_t begin = said.find(before);
  if (begin == std::string_view::npos) return "more";
  const std::string_view amount = said.substr(begin + before.size());
  return std::string(amount.substr(0, amount.find(". "))) + " more";
}

}  // namespace

void device_room::add(const plan::memory_table& m, const plan::tier_options& tiers) {
  using amount = plan::owner_bytes::amount;
  for (const auto& x : plan::owners_of(m, tiers)) {
    if (x.bytes == 0 || x.lies != plan::tier::device || x.is == amount::predicted || !tiers.apart) continue;
    const auto known = std::ranges::find(pools_, x.owner, &plan::owner_bytes::owner);
    if (known == pools_.end())
      pools_.push_back(x);
    else
      known->bytes += x.bytes;
  }
}

uint64_t device_room::pool_bytes() const {
  uint64_t out = 0;
  for (const auto& x : pools_) out += x.bytes;
  return out;
}

uint64_t device_room::left_bytes() const {
  if (allowed_bytes_ == 0) return std::numeric_limits<uint64_t>::max();
  return allowed_bytes_ - std::min(allowed_bytes_, pool_bytes());
}

core::error device_room::spent(std::string_view said) const {
  std::string owners;
  for (const auto& x : pools_)
    owners += fmt::format("{}{} {}", owners.empty() ? "" : ", ", x.owner, core::human_bytes(x.bytes));
  std::string out =
      fmt::format("out of the GPU's memory: LibTorch wanted {} for activations and operations", wanted_by_torch(said));
  if (allowed_bytes_ > 0)
    out += fmt::format(", for which the plan leaves {} of the {} that the run may use", core::human_bytes(left_bytes()),
                       core::human_bytes(allowed_bytes_));
  if (!owners.empty()) out += fmt::format(" (it has {}: {})", core::human_bytes(pool_bytes()), owners);
  return {core::error_kind::limit,
          fmt::format(
              "{}; `troupe plan {} --fit` lists settings that need less, `nvidia-smi` lists other programs on the GPU",
              out, file_)};
}

}  // namespace troupe::actors
