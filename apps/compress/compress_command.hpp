// `troupe compress SOURCE OUT`: a trained model in fewer bits, for others to run. Owns options, the order of the work
// and what is printed; formats are compress_target.hpp's, what computes with the model is compress_calibration.hpp's.
#pragma once

#include <memory>

#include "apps/compress/compress_calibration.hpp"

namespace CLI {
class App;
}

namespace troupe::apps {

class compress_command {
 public:
  /// Adds `compress`; `parent` outlives this object.
  explicit compress_command(CLI::App& parent);
  ~compress_command();
  compress_command(const compress_command&) = delete;
  compress_command& operator=(const compress_command&) = delete;

  /// After parsing: does what was asked for and gives the exit code; nothing where another command was.
  [[nodiscard]] bool chosen() const;
  /// Whether `run` wants an opener: a method or a loss computes with the model.
  [[nodiscard]] bool computes() const;
  int run(const calibration_opener& open);

 private:
  /// Refuses options that would do nothing; `computes`: there is an opener.
  [[nodiscard]] core::result<void> check_options(bool computes) const;

  CLI::App* command_;
  std::unique_ptr<compress_arguments> arguments_;
};

}  // namespace troupe::apps
