// Shows the content of a token file: the facts of its description, and counts of the tokens.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "apps/base/data.hpp"
#include "apps/base/exit_code.hpp"
#include "apps/base/idle_options.hpp"
#include "core/source_file.hpp"
#include "data/bare_tokens.hpp"
#include "data/formats/files.hpp"
#include "data/formats/indexed_pair.hpp"
#include "data/token_file.hpp"
#include "data/token_stream.hpp"
#include "data/tokenizers/opening/open_tokenizer.hpp"
#include "data/tokenizers/tokenizer.hpp"

namespace troupe::apps {
namespace {

/// Returns text that a terminal can show: escapes control characters, keeps line breaks.
std::string shown(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7F)
      out += fmt::format("\\x{:02x}", byte);
    else
      out.push_back(c);
  }
  return out;
}

core::result<std::shared_ptr<data::tokenizer>> tokenizer_for(const inspect_arguments& a,
                                                             const std::optional<data::token_file>& described) {
  std::string path = a.tokenizer;
  if (path.empty()) {
    if (!described) return std::shared_ptr<data::tokenizer>();
    path = described->tokenizer_path;
  }
  TROUPE_ASSIGN(auto opened, data::open_tokenizer(data::is_word_for_bytes(path) ? "" : path));
  if (described && !data::same_vocabulary(opened->description(), described->tokenizer))
    return fail(
        error_kind::bad_input,
        fmt::format("the tokenizer '{}' is not the one that produced the file; give that one by --tokenizer", path));
  return std::shared_ptr<data::tokenizer>(std::move(opened));
}

/// Facts about a token file that are read from Megatron's index (.idx) next to it.
struct index_facts {
  std::string name, type;  ///< the index's file name, and the type of its tokens
  uint64_t documents = 0;
};

core::result<std::optional<index_facts>> index_facts_of(const std::filesystem::path& bin) {
  const auto index = data::index_of(bin);
  if (!index) return std::nullopt;
  TROUPE_ASSIGN(const auto content, core::source_file::open(bin));
  TROUPE_ASSIGN(const auto pair, data::indexed_pair::open(*index, content, false));
  return index_facts{index->filename().string(), data::name_of(pair.type()), pair.documents()};
}

/// Size of a vocabulary that contains every token number which a file of uint32 can store.
constexpr uint64_t any_vocabulary = uint64_t{1} << 32;

core::result<void> show(const inspect_arguments& a) {
  const std::filesystem::path path = a.file;
  const auto dtype = data::bin_width_from(a.dtype);
  if (!dtype) return fail(error_kind::bad_input, fmt::format("--dtype: wanted uint16 or uint32, got '{}'", a.dtype));
  if (data::kind_of(path) != data::source_kind::tokens || data::is_packed(path))
    return fail(error_kind::bad_input, fmt::format("wanted a .bin of tokens, got '{}'", a.file));
  std::error_code ec;
  const auto bytes = std::filesystem::file_size(path, ec);
  if (ec) return fail(error_kind::bad_input, fmt::format("cannot read '{}': {}", a.file, ec.message()));
  TROUPE_ASSIGN(const auto described, data::read_token_file(path, bytes));
  TROUPE_ASSIGN(const auto indexed, index_facts_of(path));
  data::bare_tokens bare{.begin_byte = 0, .width = *dtype};
  if (!described && !indexed) {
    TROUPE_ASSIGN(const auto file, core::source_file::open(path));
    TROUPE_ASSIGN(bare, data::look_at_tokens(file, *dtype));
  }
  const bool has_header = bare.begin_byte > 0;
  const auto describes = indexed      ? indexed->name
                         : has_header ? std::string("a header of llm.c")
                                      : data::description_path(path).filename().string();
  const auto idle =
      refuse_idle(a.given, {{!described && !indexed && !has_header, "a file without " + describes, {"--dtype"}},
                            {described || !a.tokenizer.empty(), "a file whose tokenizer is known", {"--tokens"}}});
  if (!idle) return idle;
  TROUPE_ASSIGN(
      const auto stream,
      data::open_tokens(
          {.path = path, .bin = *dtype, .vocab_size = described ? described->tokenizer.vocab_size : any_vocabulary}));

  int64_t largest = 0;
  uint64_t ends = 0;
  const bool has_end = described && described->tokenizer.end_of_text;
  const int64_t end = has_end ? int64_t{*described->tokenizer.end_of_text} : -1;
  std::vector<int64_t> block(1 << 16);
  for (uint64_t at = 0; at < stream->size(); at += block.size()) {
    const auto part = std::span(block).first(std::min<uint64_t>(block.size(), stream->size() - at));
    TROUPE_TRY(stream->copy(at, part));
    for (const int64_t t : part) {
      largest = std::max(largest, t);
      ends += t == end;
    }
  }
  std::printf("%llu tokens, %s, largest %lld\n", static_cast<unsigned long long>(stream->size()),
              described ? data::name_of(described->width)
              : indexed ? indexed->type.c_str()
                        : data::name_of(bare.width),
              static_cast<long long>(largest));
  if (described) {
    const auto& t = described->tokenizer;
    std::printf(
        "%llu document%s%s\n", static_cast<unsigned long long>(described->documents),
        described->documents == 1 ? "" : "s",
        has_end && ends != described->documents ? fmt::format(", but {} end-of-text tokens", ends).c_str() : "");
    const auto& path_of_it = described->tokenizer_path;  // empty if the kind alone identifies the tokenizer
    std::printf("vocabulary of %llu: %s%s%s, end of text %s, digest %s\n",
                static_cast<unsigned long long>(t.vocab_size), t.kind.c_str(), path_of_it.empty() ? "" : " ",
                path_of_it.c_str(), has_end ? fmt::to_string(end).c_str() : "none", t.digest.c_str());
  } else if (indexed) {
    std::printf("%llu document%s by %s, of an unknown vocabulary\n",
                static_cast<unsigned long long>(indexed->documents), indexed->documents == 1 ? "" : "s",
                indexed->name.c_str());
  } else {
    std::printf("no %s beside it: one document of an unknown vocabulary\n",
                data::description_path(path).filename().c_str());
  }
  const auto tokenizer = tokenizer_for(a, described);
  if (!tokenizer && !a.tokenizer.empty()) return fail(tokenizer.error());
  if (!tokenizer) {
    std::printf("not decoded: %s\n", tokenizer.error().text.c_str());
  } else if (*tokenizer) {
    std::vector<int64_t> first(std::min<uint64_t>(a.tokens, stream->size()));
    TROUPE_TRY(stream->copy(0, first));
    const std::vector<uint32_t> ids(first.begin(), first.end());
    std::printf("%s\n", shown((*tokenizer)->decode(ids)).c_str());
  }
  return {};
}

}  // namespace

int inspect(const inspect_arguments& a) {
  const auto ok = show(a);
  return ok ? 0 : failed(ok.error());
}

}  // namespace troupe::apps
