// Which methods go with which arguments, and what text a run's own configuration holds out for validation.
#pragma once

#include "apps/compress/compress_arguments.hpp"
#include "config/sections/job_config.hpp"
#include "core/error.hpp"

namespace troupe::apps {

/// Refused: a method that is not known, one that wants `--calibrate` without it, and one that the format does not take.
core::result<void> check_method(const compress_arguments& a);

/// Whether the checkpoint that `a` names is of a run that held out a part of its text, which is still there.
bool has_own_validation(const compress_arguments& a);
bool has_own_validation(const config::job_config& job);

}  // namespace troupe::apps
