#include "models/cuda/use.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::models {
namespace {

struct uses_of_process {
  std::mutex lock;
  const cuda_process* library = nullptr;
  std::vector<const cuda_use*> open;
  bool is_watched = false;  // true: the library tells of Torch's device memory
};

uses_of_process& uses() {
  static auto* const all = new uses_of_process;  // never destroyed, because sessions may end after all static objects
  return *all;
}

constexpr const char* workspace_variable = "CUBLAS_WORKSPACE_CONFIG";

/// Returns an error if the environment selects a cuBLAS workspace other than the two that make cuBLAS deterministic
/// (NVIDIA's manual of cuBLAS, "Results reproducibility"); LibTorch would fail in the middle of a step.
core::result<void> check_workspace() {
  const char* const said = std::getenv(workspace_variable);
  if (said == nullptr || said == std::string_view(":4096:8") || said == std::string_view(":16:8")) return {};
  return core::refused("cuda.deterministic: wanted " + std::string(workspace_variable) +
                       " to be :4096:8, :16:8 or unset, because cuBLAS is deterministic only with these, got '" + said +
                       "'");
}

core::result<void> check_same(const char* key, bool there, bool wanted) {
  const auto text = [](bool on) { return std::string(on ? "true" : "false"); };
  if (there == wanted) return {};
  return core::refused(
      "cuda." + std::string(key) + ": wanted " + text(there) +
      ", the value of another session of this process, because LibTorch has one value for the whole process, got " +
      text(wanted));
}

}  // namespace

void provide(const cuda_process& of_library) { uses().library = &of_library; }

void empty_cuda_cache() {
  if (const cuda_process* const library = uses().library; library != nullptr) library->empty_cache();
}

core::result<void> watch_cuda_memory(const memory_watch& w) {
  auto& all = uses();
  const std::lock_guard guard(all.lock);
  if (all.library == nullptr || all.is_watched) return {};
  TROUPE_TRY(all.library->watch_memory(w));
  all.is_watched = true;
  return {};
}

core::result<std::unique_ptr<cuda_use>> cuda_use::begin(device::device_id device, const cuda_settings& s) {
  if (s.deterministic) TROUPE_TRY(check_workspace());
  auto& all = uses();
  const std::lock_guard guard(all.lock);
  for (const cuda_use* other : all.open) {
    TROUPE_TRY(check_same("tf32", other->settings_.tf32, s.tf32));
    TROUPE_TRY(check_same("deterministic", other->settings_.deterministic, s.deterministic));
  }
  if (all.library != nullptr && all.open.empty()) all.library->settle(s);
  std::unique_ptr<cuda_use> made(new cuda_use(device, s));
  all.open.push_back(made.get());
  return made;
}

cuda_use::~cuda_use() {
  auto& all = uses();
  const std::lock_guard guard(all.lock);
  std::erase(all.open, this);
  if (all.library != nullptr && all.open.empty()) all.library->restore();
}

core::result<void> cuda_use::share_memory(uint64_t bytes) {
  auto& all = uses();
  const std::lock_guard guard(all.lock);
  bytes_ = bytes;
  uint64_t sum = 0;
  for (const cuda_use* each : all.open)
    if (each->device_ == device_) sum += std::min(each->bytes_, std::numeric_limits<uint64_t>::max() - sum);
  return all.library == nullptr ? core::result<void>() : all.library->limit_memory(device_.index, sum);
}

}  // namespace troupe::models
