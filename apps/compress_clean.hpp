// `troupe compress --clean`: a run's checkpoint with what it was compressed with made permanent, as a checkpoint that a
// run resumes, or as what another format is written from.
#pragma once

#include <string>

#include "apps/cleaned_checkpoint.hpp"
#include "apps/compress_arguments.hpp"
#include "apps/compress_target.hpp"

namespace troupe::apps {

/// Without `--to`: the cleaned checkpoint as one of ours and its model's config.json.
core::result<void> write_clean(const compress_arguments& a);

/// The checkpoint that is compressed further, cleaned where that is asked for; `scales` are then those that were
/// trained.
core::result<described_checkpoint> open_to_compress(const compress_arguments& a, trained_scales& scales);

/// How far stored values are from trained ones: a line, or nothing where no grid was trained.
std::string as_trained(const compress_summary& written, const trained_scales& scales);

}  // namespace troupe::apps
