// Interface of `troupe compress` to a program that computes with the model: the loss over a text that is not used for
// calibration, and weights that a compression method (GPTQ, AWQ ...) has chosen. Only troupe-train implements it;
// without an implementation weights are rounded to nearest.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "apps/compress/compress_target.hpp"

namespace troupe::apps {

/// Result of a compression method: a source with changed weights, and the weights that need no further rounding.
struct compress_work {
  formats::tensor_source source;
  checkpoint::prepared_weights prepared;
};

class compress_calibration {
 public:
  compress_calibration() = default;
  compress_calibration(const compress_calibration&) = delete;
  compress_calibration& operator=(const compress_calibration&) = delete;
  virtual ~compress_calibration() = default;

  /// Returns a description of the held-out text, for messages; empty: there is no held-out text, and loss() must not be
  /// called.
  [[nodiscard]] virtual std::string held_out() const = 0;
  [[nodiscard]] virtual std::string loss_unit() const = 0;  ///< returns the unit of the losses: nats/byte or nats/token
  /// Computes the loss of `of` over the held-out text. `beside`: folder in which hidden states are stored temporarily.
  /// `rounds_inputs`: true if the inputs of linear layers are rounded to 8 bits, too.
  virtual core::result<double> loss(const formats::tensor_source& of, const std::filesystem::path& beside,
                                    bool rounds_inputs) = 0;

  /// Runs the compression method that `--method` names. `beside` is a folder that only this work uses; the call
  /// continues work that an ended process left in it. Error `stopped` if the user interrupts the work.
  virtual core::result<compress_work> prepare(const compress_target& target, const std::filesystem::path& beside) = 0;
};

/// Opens a calibration. Refused: a text that is missing or too short; a method that requires a text, without one.
using calibration_opener = std::function<core::result<std::unique_ptr<compress_calibration>>(
    const compress_arguments&, const described_checkpoint&)>;

}  // namespace troupe::apps
