// Formats the prediction of a job on hardware that is not here, as text or JSON.
#pragma once

#include <string>

#include "apps/simulate/hardware_prediction.hpp"

namespace troupe::apps {

/// The sentences of a report besides its figures.
struct prediction_request {
  std::string job;    ///< the job's file, as typed
  std::string named;  ///< the card whose stack was taken; empty: a stack was named
  std::string batch;  ///< sentence about which global batch was taken
};

/// Returns how the peak of memory fits the card, in one word: fits, close, exceeds, or unknown if it is not predicted.
std::string verdict_of(const hardware_prediction& found);

/// Returns the text; its first line has the step, and whether the peak of memory fits.
std::string prediction_as_text(const prediction_request& asked, const hardware_prediction& found);
std::string prediction_as_json(const prediction_request& asked, const hardware_prediction& found);

}  // namespace troupe::apps
