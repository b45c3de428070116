// Reserves a folder of CSV curves for one run. Owns the file `.curves` in the folder, which names the process that
// writes there and the run whose curves the folder has; leaves the curves to curve_files.hpp.
#pragma once

#include <filesystem>
#include <string_view>

#include "core/error.hpp"

namespace troupe::telemetry {

inline constexpr std::string_view claim_file_name = ".curves";

/// The run that wants to write its curves to a folder.
struct curve_claimant {
  std::filesystem::path run;  ///< output folder of the run; empty: it has none
  bool goes_on = false;       ///< true: the run is resumed and appends to the curves in the folder
  /// True: another process of the same job has written the curves, and may still hold the folder although it is lost.
  /// A run with an output folder is also recognised by that folder, without this flag.
  bool took_over = false;
};

/// The reservation of a folder, held from take() to the destructor or to the end of the process.
class curve_claim {
 public:
  /// Reserves the existing folder `folder` without waiting, and records the run in its file `.curves`. Errors
  /// (bad_input): another run holds the folder; the run goes on and the folder has the curves of another run. A folder
  /// without the file may have the curves of any run. On a file system without locks only the recorded run is compared.
  static core::result<curve_claim> take(const std::filesystem::path& folder, const curve_claimant& who);

  curve_claim(curve_claim&& other) noexcept;
  curve_claim& operator=(curve_claim&&) = delete;
  curve_claim(const curve_claim&) = delete;
  curve_claim& operator=(const curve_claim&) = delete;
  ~curve_claim();

 private:
  explicit curve_claim(int fd) : fd_(fd) {}

  int fd_ = -1;  ///< descriptor of the open file `.curves`; negative after a move
};

}  // namespace troupe::telemetry
