// Writes docs/configuration.md from the table of keys.
#include <fmt/format.h>

#include "config/explain.hpp"
#include "config/keys/key_table.hpp"

namespace troupe::config {
namespace {

/// Escapes a text for a cell of a Markdown table.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

std::string effect_cell(const key_info& row) {
  if (!row.support.refusal.empty()) return fmt::format("refused: {}", row.support.refusal);
  std::string out = effect_of(row);
  if (!row.support.only.empty() && !row.support.capability.empty() && row.support.acts == effect::acts)
    out = fmt::format("only `{}` until there is {}", fmt::join(row.support.only, "` and `"), row.support.capability);
  else if (!row.support.only.empty())
    out += fmt::format("; a job may only say `{}`", fmt::join(row.support.only, "` and `"));
  if (!row.deprecation.empty()) out += fmt::format("; deprecated, write `{}`", row.deprecation);
  return out;
}

std::string name_cell(const key_info& row) {
  std::string out = fmt::format("`{}`", row.name());
  for (const alias& a : row.aliases) out += fmt::format(", {}`{}`", a.deprecated ? "deprecated " : "", a.name);
  if (!row.types.families.empty()) out += fmt::format(" ({})", fmt::join(row.types.families, ", "));
  if (!row.types.readers.empty()) out += fmt::format(" ({})", fmt::join(row.types.readers, ", "));
  return out;
}

std::string default_cell(const key_info& row) {
  if (row.required) return "required";
  std::string out = fmt::format("`{}`", row.default_text);
  if (!row.types.needed_by.empty()) out = fmt::format("required with {}", fmt::join(row.types.needed_by, ", "));
  for (const auto& [type, text] : row.types.defaults) out += fmt::format("; {}: `{}`", type, text);
  return out;
}

constexpr std::string_view introduction = R"(# Configuration

Every key of a configuration file, made from the table in `config/`; a test keeps this page current
(`TROUPE_WRITE_DOCS=1` lets that test write it).

- A file is YAML (`<<` merges), or JSON when its name ends in `.json` or it begins with a bracket (read as Hjson:
  comments, a comma behind the last item, names and texts without quotes), or base64 of JSON. `deepspeed_config: FILE` imports a DeepSpeed JSON, and a mapping
  there counts like one; a key that stands in the file itself wins over an imported one, and `--set key=value` over both.
- `troupe config check` and `explain` also take a plain DeepSpeed JSON and what Accelerate writes: a file that names
  fewer than two of `model`, `data` and `steps`. What nothing honours yet is said there; `train` and `plan` refuse it.
- `"auto"` means the default; a degree of `parallel` that is `auto` beside `ranks` is chosen by the run. An integer may be
  written `5e8`. Paths are relative to the folder of the file they stand in, those of `--set` to the current folder.
- A path may begin with `~`, the home folder, and have `$NAME` or `${NAME}` of the environment; a variable that is not set is
  refused, and a file that exists under its name, such as `a$b`, is that one. Options of the command line that are
  paths are read alike. `--set` takes the value of a key that holds one text as it is written: `cluster.listen=[::1]:4472`.
- An unknown key is an error; in a DeepSpeed JSON it is an error in the sections where DeepSpeed refuses it too, and a
  warning elsewhere. `--strict` makes all warnings errors. There `"5"` and `"yes"` are read as 5 and true in the sections
  where DeepSpeed converts them, with a warning.
- A key acts, or acts once there is what it waits for, or has no effect, for a reason; of the last two a value that is
  not the default is warned about.
- `null` may be given where the default is `none`, and where the key says so: it means the default. As a name or
  a path, the word `none` stands in quotes.
- A part `*` of a section's name stands for any name; a section whose name ends in `[]` is a list of mappings.
- A key of `optimizer.params` or `scheduler.params` that names types belongs to those: with another type it is refused.
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
        std::string meaning(around == nullptr ? "" : around->meaning);
        if (around != nullptr && around->by_presence)
          meaning += fmt::format(" Where the section stands: {}.", effect_of(*around));
        heading(title, meaning);
        any = true;
      }
      out += fmt::format("| {} | {} | {} | {} | {} |\n", name_cell(row), cell(wanted(row)), default_cell(row),
                         cell(row.meaning), cell(effect_cell(row)));
    }
  };
  rows_of("");
  for (const key_info& row : key_table())
    if (row.type == value_type::section) rows_of(row.key);
  return out;
}

}  // namespace troupe::config
