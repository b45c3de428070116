// Owns `troupe compress SOURCE OUT`, which writes a trained model in fewer bits for other programs: its options, the
// order of the work and the output. Leaves formats to compress_target.hpp, and computing with the model to
// compress_calibration.hpp.
#pragma once

#include <memory>

#include "apps/base/program_command.hpp"
#include "apps/compress/compress_calibration.hpp"

namespace troupe::apps {

class compress_command : public program_command {
 public:
  /// Adds `compress`; `parent` must outlive this object.
  explicit compress_command(CLI::App& parent);
  ~compress_command();

  /// True if `run` needs a calibration_opener, because a compression method or a loss computes with the model.
  [[nodiscard]] bool computes() const;
  /// Executes the command and returns the exit code.
  int run(const calibration_opener& open);

 private:
  /// Refuses options without effect; `computes` is true if this program can compute with the model, i.e. passes a
  /// calibration_opener to `run`.
  [[nodiscard]] core::result<void> check_options(bool computes) const;

  std::unique_ptr<compress_arguments> arguments_;
};

}  // namespace troupe::apps
