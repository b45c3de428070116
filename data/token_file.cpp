// Reads and writes `NAME.bin.json`, the description of a file of tokens.
#include "data/token_file.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/json_text.hpp"
#include "core/source_file.hpp"
#include "data/formats/files.hpp"

namespace troupe::data {
namespace {

using nlohmann::json;

constexpr const char* format_name = "troupe tokens";
constexpr int format_version = 1;

token_file parse(const json& j) {
  token_file out;
  const auto& t = j.at("tokenizer");
  out.tokenizer.kind = t.at("kind").get<std::string>();
  out.tokenizer.vocab_size = t.at("vocab_size").get<uint64_t>();
  if (!t.at("end_of_text").is_null()) out.tokenizer.end_of_text = t.at("end_of_text").get<uint32_t>();
  out.tokenizer.digest = t.at("digest").get<std::string>();
  out.tokenizer.file_digest = t.value("file_digest", std::string());
  out.tokenizer_path = t.at("path").get<std::string>();
  out.width = bin_width_from(j.at("dtype").get<std::string>()).value();
  out.tokens = j.at("tokens").get<uint64_t>();
  out.documents = j.at("documents").get<uint64_t>();
  return out;
}

}  // namespace

std::string shown_end(const tokenizer_description& t) {
  return t.end_of_text ? fmt::format("token {}", *t.end_of_text) : std::string("no token");
}

core::result<void> check_same_tokenizer(const token_maker& one, const token_maker& other) {
  const auto &a = one.tokenizer, &b = other.tokenizer;
  if (!same_vocabulary(a, b))
    return core::refused(
        fmt::format("'{}' holds tokens of {} ({} tokens, digest {}), and '{}' of {} ({} tokens, digest {}): wanted one "
                    "tokenizer for all sources; encode both with the model's",
                    one.file, a.kind, a.vocab_size, a.digest, other.file, b.kind, b.vocab_size, b.digest));
  if (a.end_of_text != b.end_of_text)
    return core::refused(
        fmt::format("'{}' ends its documents with {}, and '{}' with {}: wanted one end of text for all sources; encode "
                    "both with the model's tokenizer",
                    one.file, shown_end(a), other.file, shown_end(b)));
  return {};
}

std::optional<bin_width> bin_width_from(std::string_view name) {
  if (name == "uint16") return bin_width::u16;
  if (name == "uint32") return bin_width::u32;
  return std::nullopt;
}

const char* name_of(bin_width width) { return width == bin_width::u16 ? "uint16" : "uint32"; }

std::filesystem::path description_path(const std::filesystem::path& bin) { return bin.string() + ".json"; }

std::optional<std::filesystem::path> description_of(const std::filesystem::path& bin) {
  std::error_code ec;
  if (auto own = description_path(bin); std::filesystem::exists(own, ec)) return own;
  if (!is_packed(bin)) return std::nullopt;
  // Gzip and zstd replace NAME.bin by NAME.bin.gz, but the description NAME.bin.json stays, so a packed file also has
  // the description of the unpacked one.
  auto unpacked = description_path(bin.parent_path() / bin.stem());
  return std::filesystem::exists(unpacked, ec) ? std::optional(std::move(unpacked)) : std::nullopt;
}

std::string as_text(const token_file& f) {
  const auto& t = f.tokenizer;
  nlohmann::ordered_json j;
  j["format"] = format_name;
  j["version"] = format_version;
  j["dtype"] = name_of(f.width);
  j["tokens"] = f.tokens;
  j["documents"] = f.documents;
  j["tokenizer"] = {{"kind", t.kind},
                    {"path", f.tokenizer_path},
                    {"digest", t.digest},
                    {"vocab_size", t.vocab_size},
                    {"end_of_text", nullptr}};
  if (!t.file_digest.empty()) j["tokenizer"]["file_digest"] = t.file_digest;
  if (t.end_of_text) j["tokenizer"]["end_of_text"] = *t.end_of_text;
  return j.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

core::result<std::optional<token_file>> read_token_file(const std::filesystem::path& bin, uint64_t bytes) {
  const auto there = description_of(bin);
  if (!there) return std::nullopt;
  const auto& path = *there;
  TROUPE_ASSIGN(const auto file, core::source_file::open(path));
  const auto wrong = [&](const std::string& why) {
    return fail(error_kind::bad_input, fmt::format("'{}' does not describe tokens: {}", path.string(), why));
  };
  if (file.size() > max_token_file_bytes)
    return wrong(fmt::format("{} bytes, more than {}", file.size(), max_token_file_bytes));
  TROUPE_ASSIGN(const auto text, file.read_all(max_token_file_bytes));
  const auto parsed = core::parse_json(text);
  if (!parsed) return wrong(parsed.error().why);
  token_file out;
  try {
    const auto& j = *parsed;
    if (j.at("format") != format_name || j.at("version") != format_version)
      return wrong(fmt::format("wanted the format \"{}\", version {}", format_name, format_version));
    out = parse(j);
  } catch (const std::exception& e) {  // thrown by the JSON library, and for an invalid dtype
    return wrong(e.what());
  }
  if (out.tokens > bytes / static_cast<uint64_t>(out.width) || out.tokens * static_cast<uint64_t>(out.width) != bytes)
    return fail(error_kind::bad_input, fmt::format("'{}' has {} bytes, wanted the {} tokens of {} that '{}' describes",
                                                   bin.string(), bytes, out.tokens, name_of(out.width), path.string()));
  if (out.tokenizer.end_of_text && *out.tokenizer.end_of_text >= out.tokenizer.vocab_size)
    return wrong("its end_of_text lies outside its vocabulary");
  return out;
}

}  // namespace troupe::data
