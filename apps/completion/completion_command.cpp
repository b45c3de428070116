#include "apps/completion/completion_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "apps/base/exit_code.hpp"
#include "apps/base/help.hpp"
#include "apps/completion/suggest.hpp"
#include "config/keys/key_table.hpp"
#include "core/error.hpp"

namespace troupe::apps {

namespace {

// The scripts with which shells ask the program for completions. They contain no command and no option names.
constexpr std::string_view bash_script = R"(# bash completion of troupe; made by `troupe completion bash`.
_troupe() {
  local line=${COMP_LINE:0:COMP_POINT} words answer current begin
  read -a words <<<"$line"
  [[ $line == *[![:space:]] ]] || words+=("")
  current=${words[-1]}
  COMPREPLY=()
  while IFS= read -r answer; do COMPREPLY+=("${answer%%$'\t'*}"); done < \
    <("${words[0]/#\~\//$HOME/}" completion --words "${words[@]:1}" 2>/dev/null)
  if ((${#COMPREPLY[@]} == 1)) && [[ ${COMPREPLY[0]} == *[=./] ]]; then compopt -o nospace; fi
  # Bash replaces what stands behind the last of its word breaks.
  begin=
  if [[ $COMP_WORDBREAKS == *=* && $current == *=* ]]; then begin=${current%"${current##*=}"}; fi
  if [[ $COMP_WORDBREAKS == *:* && ${current#"$begin"} == *:* ]]; then begin=${current%"${current##*:}"}; fi
  local i
  for i in "${!COMPREPLY[@]}"; do
    answer=${COMPREPLY[i]#"$begin"}
    case $answer in *[\ \'\"\\\(\)\&\;\<\>\|\$\`\*\?\[\]\#\!]*) printf -v answer %q "$answer" ;; esac
    COMPREPLY[i]=$answer
  done
}
complete -o nosort -F _troupe troupe 2>/dev/null || complete -F _troupe troupe
)";

constexpr std::string_view zsh_script = R"(#compdef troupe
# zsh completion of troupe; made by `troupe completion zsh`.
_troupe() {
  local -a typed open closed open_shown closed_shown
  local answer text shown
  typed=("${(@Q)words[2,CURRENT]}")
  while IFS= read -r answer; do
    text=${answer%%$'\t'*}
    shown=$text
    [[ $answer == *$'\t'?* ]] && shown="$text  -- ${answer#*$'\t'}"
    if [[ $text == *[=./] ]]; then open+=("$text"); open_shown+=("$shown")
    else closed+=("$text"); closed_shown+=("$shown"); fi
  done < <(${~${(Q)words[1]}} completion --words "${typed[@]}" 2>/dev/null)
  local -i added=1
  (($#open)) && compadd -l -S '' -d open_shown -a open && added=0
  (($#closed)) && compadd -l -d closed_shown -a closed && added=0
  return added
}
if [[ ${funcstack[1]} == _troupe ]]; then _troupe "$@"; else compdef _troupe troupe; fi
)";

constexpr std::string_view fish_script = R"(# fish completion of troupe; made by `troupe completion fish`.
function __troupe_suggest
  set -l typed (commandline -opc)
  set -l last (commandline -ct)
  command $typed[1] completion --words $typed[2..-1] "$last" 2>/dev/null
end
complete -c troupe -f -a '(__troupe_suggest)'
)";

namespace fs = std::filesystem;

/// Returns text escaped for roff, so that no line is read as a request (a line that begins with `.` or `'`) and a minus
/// is printed as a minus.
std::string plain(std::string_view text) {
  std::string out;
  bool begins = true;
  constexpr size_t longest_word = 40;
  size_t in_word = 0;
  for (const char c : text) {
    if (begins && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else if (c == '`')
      out += "\\(ga";
    else if (c == '\'' && !begins)
      out += "\\(aq";
    else if (c == '~')
      out += "\\(ti";
    else if (c == '^')
      out += "\\(ha";
    else
      out += c;
    in_word = c == ' ' || c == '\n' ? 0 : in_word + 1;
    if (in_word > longest_word && (c == ',' || c == '_' || c == '.')) out += "\\:";  // roff may break the word here
    begins = c == '\n';
  }
  return out;
}

std::string dashed(std::string text) {
  std::ranges::replace(text, ' ', '-');
  return text;
}

std::string upper(std::string text) {
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return text;
}

std::string head(const std::string& title, const char* section, std::string_view summary) {
  return fmt::format(".TH \"{}\" \"{}\" \"\" \"troupe {}\" \"Troupe\"\n.ad l\n.nh\n.SH NAME\n{} \\- {}\n",
                     plain(upper(title)), section, TROUPE_VERSION, plain(title), plain(summary));
}

std::string item(const std::string& name, const std::string& text) {
  return fmt::format(".TP\n.B {}\n{}\n", plain(name), text.empty() ? "\\&" : plain(text));
}

std::vector<const CLI::App*> commands_below(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* a) { return !a->get_name().empty(); });
}

std::string page_of(const CLI::App& app) {
  const std::string name = full_name(app);
  std::string out = head(dashed(name), "1", app.get_description());
  const auto options = app.get_options([](const CLI::Option* o) { return o->nonpositional(); });
  const auto arguments = app.get_options([](const CLI::Option* o) { return o->get_positional(); });
  out += fmt::format(".SH SYNOPSIS\n.B {}\n", plain(name));
  if (!options.empty()) out += "[\\fIOPTIONS\\fR]\n";
  for (const auto* a : arguments)
    out += a->get_required() ? fmt::format("\\fI{}\\fR\n", plain(written(*a)))
                             : fmt::format("[\\fI{}\\fR]\n", plain(written(*a)));
  const auto below = commands_below(app);
  if (!below.empty()) out += "\\fICOMMAND\\fR\n";
  const auto described = [](const CLI::Option& o) {
    return o.get_description() + (o.get_default_str().empty() ? "" : fmt::format(" Default: {}.", o.get_default_str()));
  };
  if (!arguments.empty()) out += ".SH ARGUMENTS\n";
  for (const auto* a : arguments) out += item(written(*a), described(*a));
  if (!options.empty()) out += ".SH OPTIONS\n";
  for (const auto* o : options) out += item(written(*o), described(*o));
  if (!below.empty()) out += ".SH COMMANDS\n";
  for (const auto* c : below) out += item(c->get_name(), c->get_description());
  if (const auto example = example_of(name.substr(std::min(name.size(), name.find(' ') + 1)));
      name.find(' ') != std::string::npos && !example.empty())
    out += fmt::format(".SH EXAMPLE\n.EX\n{}\n.EE\n", plain(example));
  out += fmt::format(".SH \"EXIT STATUS\"\n{}.\n.SH \"SEE ALSO\"\n", plain(exit_codes));
  if (app.get_parent() != nullptr) out += fmt::format(".BR {} (1),\n", plain(dashed(full_name(*app.get_parent()))));
  for (const auto* c : below) out += fmt::format(".BR {} (1),\n", plain(dashed(full_name(*c))));
  return out + ".BR troupe (5)\n";
}

std::string page_of_keys() {
  std::string out = head("troupe", "5", "keys of a job's file");
  out +=
      ".SH DESCRIPTION\nA job is described in YAML, or JSON.\n.B troupe config check\nchecks a file,\n"
      ".B troupe config explain\nshows the effective value of each key, and\n.B troupe init\nwrites a file to begin "
      "with.\n";
  const auto section = [&](std::string_view of, std::string_view meaning) {
    bool any = false;
    for (const config::key_info& row : config::key_table()) {
      if (row.section() != of || row.type == config::value_type::section) continue;
      if (!any) {
        out += fmt::format(".SH \"{}\"\n", of.empty() ? "TOP LEVEL" : plain(of));
        if (!meaning.empty()) out += plain(meaning) + "\n";
        any = true;
      }
      std::string says = fmt::format("{}\nWanted: {}.", row.meaning, config::wanted(row));
      if (!row.required) says += fmt::format(" Default: {}.", row.default_text);
      if (const std::string effect = config::effect_of(row); effect != "acts") says += fmt::format("\n{}.", effect);
      if (!row.deprecation.empty()) says += fmt::format("\nDeprecated: write {}.", row.deprecation);
      out += item(std::string(row.name()), says);
    }
  };
  section("", "");
  for (const config::key_info& row : config::key_table())
    if (row.type == config::value_type::section) section(row.key, row.meaning);
  return out + ".SH \"SEE ALSO\"\n.BR troupe (1)\n";
}

core::result<void> write(const fs::path& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary);
  out << text;
  if (out.flush()) return {};
  return core::fail(core::error_kind::io, fmt::format("cannot write {}: {}", file.string(), std::strerror(errno)));
}

core::result<void> write_pages(const CLI::App& app, const fs::path& folder) {
  TROUPE_TRY(write(folder / (dashed(full_name(app)) + ".1"), page_of(app)));
  for (const auto* c : commands_below(app)) TROUPE_TRY(write_pages(*c, folder));
  return {};
}

/// Writes man1/troupe*.1 and man5/troupe.5 below `folder`, which is created if it is missing.
core::result<void> write_manual(const CLI::App& program, const fs::path& folder) {
  for (const char* section : {"man1", "man5"}) {
    std::error_code e;
    fs::create_directories(folder / section, e);
    if (e)
      return core::fail(core::error_kind::bad_input,
                        fmt::format("cannot make {}: {}", (folder / section).string(), e.message()));
  }
  TROUPE_TRY(write(folder / "man5" / "troupe.5", page_of_keys()));
  return write_pages(program, folder / "man1");
}

}  // namespace

completion_command::completion_command(CLI::App& parent)
    : program_(parent),
      completion_(
          parent.add_subcommand("completion", "a script by which a shell completes commands, options and keys")),
      manual_(parent.add_subcommand("man", "write the manual's pages: man1/ and man5/ in a folder")) {
  completion_->add_option("shell", shell_, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  manual_->add_option("folder", folder_, "such as ~/.local/share/man, where man looks by itself")->required();
}

bool completion_command::chosen() const { return completion_->parsed() || manual_->parsed(); }

int completion_command::run() const {
  if (manual_->parsed()) {
    const auto ok = write_manual(program_, folder_);
    return ok ? 0 : failed(ok.error());
  }
  const auto script = shell_ == "bash" ? bash_script : shell_ == "zsh" ? zsh_script : fish_script;
  std::fwrite(script.data(), 1, script.size(), stdout);
  return 0;
}

int print_suggestions(const CLI::App& program, const std::vector<std::string>& words) {
  for (const auto& [text, meaning] : suggest(program, words))
    std::printf(meaning.empty() ? "%s\n" : "%s\t%s\n", text.c_str(), meaning.c_str());
  return 0;
}

}  // namespace troupe::apps
