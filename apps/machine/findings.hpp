// What the facts about a machine mean for training on it: one line each, and for what is missing or poor what it costs
// and the command that mends it. Pure; the facts come from apps/machine/machine.hpp and apps/machine/probes.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/machine/machine.hpp"
#include "apps/machine/probes.hpp"

namespace troupe::apps {

enum class condition : uint8_t {
  fine,
  poor,     ///< works, at a cost
  missing,  ///< something that training needs
};

struct finding {
  std::string topic;
  condition is = condition::fine;
  std::string found;
  std::string costs{};    ///< empty when fine
  std::string command{};  ///< that mends it; empty when none does
};

/// What was tried besides reading.
struct tried_facts {
  uint32_t usable_cores = 0;
  attempt io_uring;
  attempt lock;  ///< of `memlock_wanted_bytes`
  queue_facts queue;
  cuda_facts cuda;
  cuda_library_facts cuda_library;
  folder_facts folder;
  std::string train_program;  ///< where troupe-train is, or why there is none
  bool train_program_there = false;
  std::string train_mend = "make install PREFIX=... (in Troupe's source tree)";  ///< brings it
  std::string torch_library;  ///< where an installed LibTorch should stand; empty: not an installed troupe
  bool torch_library_there = false;
  std::string aten_limit{};  ///< ATEN_CPU_CAPABILITY, by which LibTorch uses fewer instructions; empty: not set
};

/// Below these a finding is poor.
inline constexpr uint64_t open_files_wanted = 4096;
inline constexpr uint64_t memlock_wanted_bytes = uint64_t{64} << 20;
inline constexpr uint64_t free_wanted_bytes = uint64_t{1} << 30;
inline constexpr uint64_t memory_wanted_bytes = uint64_t{2} << 30;

/// In the order in which they are shown.
std::vector<finding> examine(const machine_facts& m, const tried_facts& t);

/// Bytes for people, "21.4 GB"; "unlimited" for the constant of that name.
std::string bytes_text(uint64_t bytes);

}  // namespace troupe::apps
