#include "apps/compress/compress_target.hpp"

#include <fmt/format.h>

#include "core/text.hpp"

namespace troupe::apps {

core::result<std::unique_ptr<compress_target>> make_target(const compress_arguments& a,
                                                           const described_checkpoint& from) {
  if (a.to.starts_with(folder_prefix)) return make_folder_target(a, from);
  if (a.to.starts_with(gguf_prefix)) return make_gguf_target(a, from);
  return core::fail(core::error_kind::bad_input,
                    fmt::format("--to: wanted {}FORMAT or {}TYPE, got {}", folder_prefix, gguf_prefix,
                                a.to.empty() ? "nothing" : "'" + core::shown(a.to) + "'"));
}

}  // namespace troupe::apps
