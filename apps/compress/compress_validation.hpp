// Checks that the other arguments of `troupe compress` permit the compression method, and finds the text that the run
// which wrote the checkpoint held out for validation.
#pragma once

#include "apps/compress/compress_arguments.hpp"
#include "config/sections/job_config.hpp"
#include "core/error.hpp"

namespace troupe::apps {

/// Checks the compression method that `--method` names. Refused: an unknown method, a method that requires
/// `--calibrate` without this option, and a method that the output's format does not support.
core::result<void> check_method(const compress_arguments& a);

/// True if the run of the checkpoint that `a` names held out a part of its text, which still exists. False for a run on
/// conversations, because only some of their tokens count.
bool has_own_validation(const compress_arguments& a);
bool has_own_validation(const config::job_config& job);

}  // namespace troupe::apps
