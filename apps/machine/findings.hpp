// Derives findings from the facts about a machine: one line each, and a cost and a remedy if a feature is missing or
// poor. Pure; the facts come from apps/machine/machine.hpp and apps/machine/probes.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/machine/machine.hpp"
#include "apps/machine/probes.hpp"

namespace troupe::apps {

enum class condition : uint8_t {
  fine,
  poor,     ///< the checked feature works, at a cost that finding::costs names
  missing,  ///< the checked feature is missing, and training needs it
};

struct finding {
  std::string topic;
  condition is = condition::fine;
  std::string found;
  std::string costs{};    ///< what the missing or poor feature costs a run; empty for condition::fine
  std::string command{};  ///< command that remedies the finding; empty if there is none
};

/// Facts that the doctor has found by calling the system, as opposed to reading its settings.
struct tried_facts {
  uint32_t usable_cores = 0;
  attempt io_uring;
  attempt lock;  ///< result of locking `memlock_wanted_bytes` of memory
  queue_facts queue;
  cuda_facts cuda;
  cuda_library_facts cuda_library;
  folder_facts folder;
  std::string train_program;  ///< path of troupe-train, or why it was not found
  bool train_program_there = false;
  std::string train_mend = "make install PREFIX=... (in Troupe's source tree)";  ///< command that installs troupe-train
  std::string torch_library;  ///< expected path of an installed LibTorch; empty: this troupe is not installed
  bool torch_library_there = false;
  std::string aten_limit{};  ///< ATEN_CPU_CAPABILITY, which limits LibTorch's instructions; empty: not set
};

/// Values below which a finding is poor: number of files that may be open, and bytes of lockable memory, of free disk
/// space and of available memory.
inline constexpr uint64_t open_files_wanted = 4096;
inline constexpr uint64_t memlock_wanted_bytes = uint64_t{64} << 20;
inline constexpr uint64_t free_wanted_bytes = uint64_t{1} << 30;
inline constexpr uint64_t memory_wanted_bytes = uint64_t{2} << 30;

/// Returns the findings in the order in which they are shown.
std::vector<finding> examine(const machine_facts& m, const tried_facts& t);

/// Returns a number of bytes in a short form, such as "21.4 GB"; returns "unlimited" for the constant `unlimited`.
std::string bytes_text(uint64_t bytes);

}  // namespace troupe::apps
