// docs/configuration.md, from the table.
#include <fmt/format.h>

#include "config/explain.hpp"

namespace troupe::config {
namespace {

/// Text within a table.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

std::string effect_cell(const key_info& row) {
  if (!row.refusal.empty()) return fmt::format("refused: {}", row.refusal);
  std::string out = row.acts == effect::acts ? "acts" : fmt::format("none: {}", row.reason);
  if (row.only) out = fmt::format("only `{}` in this version", *row.only);
  if (row.refuse_enabled) out += "; refused with `enabled: true`";
  if (!row.deprecation.empty()) out += fmt::format("; deprecated, write `{}`", row.deprecation);
  return out;
}

std::string name_cell(const key_info& row) {
  std::string out = fmt::format("`{}`", row.name());
  for (const alias& a : row.aliases) out += fmt::format(", {}`{}`", a.deprecated ? "deprecated " : "", a.name);
  if (!row.family.empty()) out += fmt::format(" ({})", row.family);
  return out;
}

constexpr std::string_view introduction = R"(# Configuration

Every key of a configuration file, made from the table in `config/`; a test keeps this page current
(`TROUPE_WRITE_DOCS=1` lets that test write it).

- A file is YAML, or JSON when its name ends in `.json` (comments allowed). `deepspeed_config: FILE` imports a DeepSpeed
  JSON; a key that stands in the file itself wins over an imported one, and `--set key=value` over both.
- `"auto"` means the default. An integer may be written `5e8`. Paths are relative to the folder of the file they stand
  in, those of `--set` to the current folder.
- An unknown key is an error; in an imported DeepSpeed JSON it is an error in `zero_optimization`, `fp16` and `bf16`, as
  in DeepSpeed, and a warning elsewhere. `--strict` makes all warnings errors.
- A key without effect is warned about when its value is not the default, which asks for nothing.
- A file has at most 16 MiB, 64 levels of nesting and 100,000 values, aliases counted as often as they are used.
)";

}  // namespace

std::string reference_markdown() {
  std::string out(introduction);
  const auto heading = [&](const std::string& title, std::string_view meaning) {
    out += fmt::format("\n## {}\n\n", title);
    if (!meaning.empty()) out += fmt::format("{}\n\n", meaning);
    out += "| key | wanted | default | meaning | effect |\n|---|---|---|---|---|\n";
  };
  const auto rows_of = [&](std::string_view of) {
    bool any = false;
    for (const key_info& row : key_table()) {
      if (row.section() != of || row.type == value_type::section) continue;
      if (!any) {
        const key_info* around = of.empty() ? nullptr : key_named(of);
        std::string title = of.empty() ? std::string("Top level") : fmt::format("`{}`", of);
        if (around != nullptr)
          for (const alias& a : around->aliases) title += fmt::format(", `{}`", a.name);
        heading(title, around == nullptr ? "" : around->meaning);
        any = true;
      }
      out += fmt::format("| {} | {} | {} | {} | {} |\n", name_cell(row), cell(wanted(row)),
                         row.required ? "required" : fmt::format("`{}`", row.default_text), cell(row.meaning),
                         cell(effect_cell(row)));
    }
  };
  rows_of("");
  for (const key_info& row : key_table())
    if (row.type == value_type::section) rows_of(row.key);
  return out;
}

}  // namespace troupe::config
