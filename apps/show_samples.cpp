// Implements `troupe data render` and `troupe data inspect --decode`: what a chat template makes of conversations, and
// which tokens count.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "apps/base/counted_text.hpp"
#include "apps/base/data.hpp"
#include "apps/base/exit_code.hpp"
#include "apps/base/idle_options.hpp"
#include "apps/base/terminal.hpp"
#include "core/sample_types.hpp"
#include "core/source_file.hpp"
#include "data/chat/chat_format.hpp"
#include "data/chat/conversation.hpp"
#include "data/chat/rendering.hpp"
#include "data/chat/sample_rows.hpp"
#include "data/expand.hpp"
#include "data/formats/files.hpp"
#include "data/formats/objects.hpp"
#include "data/scratch_file.hpp"
#include "data/tokenizers/tokenizer.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

/// Error that ends the reading of a file after enough samples.
constexpr std::string_view enough_samples = "enough samples were read";

core::result<core::sample_form> form_named(const std::string& name) {
  const auto form = core::sample_form_from(name);
  if (form && *form != core::sample_form::text) return *form;
  return core::refused(fmt::format("--form: wanted chat, instruct or labelled, got '{}'", name));
}

core::result<core::loss_part> part_named(const std::string& name) {
  const auto part = core::loss_part_from(name);
  if (part) return *part;
  return core::refused(fmt::format("--loss-on: wanted assistant, all or last, got '{}'", name));
}

/// Returns the absolute path of a tokenizer; empty for the words that mean bytes.
fs::path tokenizer_path(const std::string& name) {
  return data::is_word_for_bytes(name) ? fs::path() : fs::absolute(name).lexically_normal();
}

/// An open file of samples; the first file of a folder.
struct samples_file {
  data::scratch_file expanded;
  core::source_file content;
  data::source_kind kind = data::source_kind::text;
};

core::result<std::unique_ptr<samples_file>> open_samples_file(const std::string& name, uint64_t max_bytes) {
  TROUPE_ASSIGN(const auto listed, data::source_files(name));
  if (listed.files.empty()) return core::refused(fmt::format("'{}' holds no file of samples", name));
  auto out = std::make_unique<samples_file>();
  std::error_code ec;
  auto scratch = fs::temp_directory_path(ec);
  if (ec) scratch = ".";
  const auto& path = listed.files.front();
  TROUPE_ASSIGN(out->content, data::open_sample_file(path, max_bytes, out->expanded, scratch));
  out->kind = data::kind_of(path);
  return out;
}

/// Turns the error that ends a reading early into success, and refuses a file without samples.
core::result<void> shown(core::result<void> did, const std::string& file, uint64_t number) {
  if (!did && did.error().text == enough_samples) return {};
  if (did && number == 0) return core::refused(fmt::format("'{}' holds no samples: nothing to show", file));
  return did;
}

void print_header(uint64_t number, const std::string& place, bool dims, const std::string& facts) {
  if (number == 1) std::printf("%s\n", dims ? "what is dimmed does not count" : "what counts is in [[ ]]");
  std::printf("--- %s%s\n", place.c_str(), facts.c_str());
}

core::result<void> render_all(const render_arguments& a) {
  TROUPE_ASSIGN(const auto form, form_named(a.form));
  TROUPE_ASSIGN(const auto part, part_named(a.loss_on));
  if (form == core::sample_form::labelled)
    return core::refused("--form: labelled tokens have no text to render; use troupe data inspect FILE --decode");
  TROUPE_ASSIGN(const auto format, data::chat_format::open(tokenizer_path(a.folder), a.chat_template, a.chat_date));
  uint64_t budget = a.max_bytes, number = 0;
  TROUPE_ASSIGN(const auto file, open_samples_file(a.file, budget));
  const bool dims = rewrites_lines(STDOUT_FILENO);
  const auto visit = [&](const nlohmann::ordered_json& row, const std::string& place, uint64_t) -> core::result<void> {
    if (number == a.count) return fail(error_kind::stopped, std::string(enough_samples));
    const auto talk = data::conversation_of(row, form, a.messages_key);
    if (!talk) return fail(talk.error().in(place));
    const auto made = data::render(format, *talk, part);
    if (!made) return fail(made.error().in(place));
    counted_writer out(dims);
    const std::string_view text = made->text;
    size_t at = 0;
    for (const auto& one : made->counted) {
      out.add(text.substr(at, one.begin - at), false);
      out.add(text.substr(one.begin, one.end - one.begin), true);
      at = one.end;
    }
    out.add(text.substr(at), false);
    print_header(++number, place, dims, made->ends_text ? " (the end-of-text token follows, and counts)" : "");
    std::printf("%s\n", out.text().c_str());
    return {};
  };
  const auto did = data::read_objects(file->kind, file->content, data::columns_of(form, a.messages_key), budget, visit);
  return shown(did, a.file, number);
}

core::result<void> decode_all(const inspect_arguments& a) {
  TROUPE_TRY(refuse_idle(a.given, {{false, "a .bin of tokens", {"--tokens", "--dtype"}}}));
  data::sample_reading how;
  TROUPE_ASSIGN(how.form, form_named(a.form));
  TROUPE_ASSIGN(how.loss_on, part_named(a.loss_on));
  if (a.tokenizer.empty())
    return core::refused("--tokenizer: wanted the folder of the tokenizer that reads the samples, got none");
  const std::string wanted =
      how.form == core::sample_form::labelled ? std::string(data::joined_template) : a.chat_template;
  TROUPE_ASSIGN(auto opened, data::chat_format::open(tokenizer_path(a.tokenizer), wanted, a.chat_date));
  const auto format = std::make_shared<const data::chat_format>(std::move(opened));
  if (how.form != core::sample_form::labelled) how.format = format;
  how.vocab_size = format->tokenizer().vocab_size();
  uint64_t budget = a.max_bytes, number = 0;
  TROUPE_ASSIGN(const auto file, open_samples_file(a.file, budget));
  const bool dims = rewrites_lines(STDOUT_FILENO);
  const auto visit = [&](data::chat_sample&& sample, const std::string& place, uint64_t) -> core::result<void> {
    if (number == a.samples) return fail(error_kind::stopped, std::string(enough_samples));
    counted_writer out(dims);
    for (const auto& one : data::texts_of(sample, format->tokenizer())) out.add(one.text, one.counts);
    print_header(++number, place, dims,
                 fmt::format(": {} tokens, {} of them count", sample.tokens.size(), data::counted_tokens(sample)));
    std::printf("%s\n", out.text().c_str());
    return {};
  };
  const auto did = data::read_samples(file->kind, file->content, how, budget, visit);
  return shown(did, a.file, number);
}

}  // namespace

int render_samples(const render_arguments& a) {
  const auto ok = render_all(a);
  return ok ? 0 : failed(ok.error());
}

int decode_samples(const inspect_arguments& a) {
  const auto ok = decode_all(a);
  return ok ? 0 : failed(ok.error());
}

}  // namespace troupe::apps
