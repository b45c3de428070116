// What `troupe compress` wants of a program that computes with the model: the loss over a text that nothing was fitted
// to, and weights that a method has chosen. Only troupe-train has one; without it weights are rounded to nearest.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "apps/compress/compress_target.hpp"

namespace troupe::apps {

/// A source with the method's changes, and the weights that are made already.
struct compress_work {
  checkpoint::tensor_source source;
  checkpoint::prepared_weights prepared;
};

class compress_calibration {
 public:
  compress_calibration() = default;
  compress_calibration(const compress_calibration&) = delete;
  compress_calibration& operator=(const compress_calibration&) = delete;
  virtual ~compress_calibration() = default;

  /// Which text the loss is of, for people; empty: none, and loss() is not asked for.
  [[nodiscard]] virtual std::string held_out() const = 0;
  [[nodiscard]] virtual std::string loss_unit() const = 0;  ///< nats/byte or nats/token
  /// Hidden states lie in `beside` meanwhile.
  virtual core::result<double> loss(const checkpoint::tensor_source& of, const std::filesystem::path& beside) = 0;

  /// Does what `--method` says. `beside` is a folder for this work alone, which may hold that of a process that was
  /// killed: it continues there. `stopped` where the user wants the end.
  virtual core::result<compress_work> prepare(const compress_target& target, const std::filesystem::path& beside) = 0;
};

/// Refused: a text that is not there or too short, a method that wants a text.
using calibration_opener = std::function<core::result<std::unique_ptr<compress_calibration>>(
    const compress_arguments&, const described_checkpoint&)>;

}  // namespace troupe::apps
