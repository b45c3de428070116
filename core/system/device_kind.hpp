// The kinds of devices that a job can compute on. Owns their names in files and messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace troupe::core {

/// Kind of a device. The CPU is always present; for every other kind there is a library, which a program links or opens
/// at run time.
enum class device_kind : uint8_t { cpu, cuda };
inline constexpr size_t device_kinds = 2;
/// Returns "cpu" or "cuda", the name in configurations.
constexpr std::string_view name_of(device_kind kind) { return kind == device_kind::cpu ? "cpu" : "cuda"; }

}  // namespace troupe::core
