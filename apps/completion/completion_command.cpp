#include "apps/completion/completion_command.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "apps/base/exit_code.hpp"
#include "apps/completion/manual.hpp"
#include "apps/completion/shell_scripts.hpp"
#include "apps/completion/suggest.hpp"

namespace troupe::apps {

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
