#include "apps/compress/companions.hpp"

#include <array>

#include "checkpoint/files/atomic_file.hpp"
#include "checkpoint/files/file_system.hpp"

namespace troupe::apps {
namespace {

constexpr std::array<const char*, 9> names{"tokenizer.json",     "tokenizer_config.json",
                                           "tokenizer.model",    "special_tokens_map.json",
                                           "added_tokens.json",  "vocab.json",
                                           "merges.txt",         "generation_config.json",
                                           "chat_template.jinja"};
constexpr uint64_t max_bytes = uint64_t{256} << 20;

}  // namespace

core::result<void> copy_companions(const std::filesystem::path& from, const std::filesystem::path& to) {
  for (const char* name : names) {
    std::error_code e;
    const auto path = std::filesystem::canonical(from / name, e);  // caches of the hub keep links
    if (e || !std::filesystem::is_regular_file(path, e)) continue;
    const auto text = checkpoint::read_small_file(checkpoint::real_files(), path, max_bytes);
    if (!text) return core::fail(text.error());
    if (auto ok = checkpoint::write_file_atomically(to / name, *text); !ok) return ok;
  }
  return {};
}

}  // namespace troupe::apps
