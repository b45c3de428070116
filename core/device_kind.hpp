// The kinds of devices that a job can compute on. Owns their names in files and messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace troupe::core {

/// The CPU is in every program; other kinds are provided by a library that a program links or opens.
enum class device_kind : uint8_t { cpu, cuda };
inline constexpr size_t device_kinds = 2;
/// "cpu" or "cuda", as in configurations.
constexpr std::string_view name_of(device_kind kind) { return kind == device_kind::cpu ? "cpu" : "cuda"; }

}  // namespace troupe::core
