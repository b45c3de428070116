// Owns `troupe compress SOURCE OUT`, which writes a trained model in fewer bits for other programs: its options, the
// order of the work and the output. Leaves formats to compress_target.hpp, and computing with the model to
// compress_calibration.hpp.
#pragma once

#include <memory>

#include "apps/compress/compress_calibration.hpp"

namespace CLI {
class App;
}

namespace troupe::apps {

class compress_command {
 public:
  /// Adds `compress`; `parent` must outlive this object.
  explicit compress_command(CLI::App& parent);
  ~compress_command();
  compress_command(const compress_command&) = delete;
  compress_command& operator=(const compress_command&) = delete;

  /// True, after parsing, if the command line chose this command; run() then executes it and returns the exit code.
  [[nodiscard]] bool chosen() const;
  /// True if `run` needs a calibration_opener, because a compression method or a loss computes with the model.
  [[nodiscard]] bool computes() const;
  int run(const calibration_opener& open);

 private:
  /// Refuses options without effect; `computes` is true if this program can compute with the model, i.e. passes a
  /// calibration_opener to `run`.
  [[nodiscard]] core::result<void> check_options(bool computes) const;

  CLI::App* command_;
  std::unique_ptr<compress_arguments> arguments_;
};

}  // namespace troupe::apps
