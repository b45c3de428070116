// troupe: what users type. Loads no LibTorch; what computes is executed from the binary beside it.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "apps/checkpoint_command.hpp"
#include "apps/common_options.hpp"
#include "apps/configuration.hpp"
#include "apps/data.hpp"
#include "apps/descriptors.hpp"
#include "apps/doctor.hpp"
#include "apps/integer_options.hpp"
#include "apps/io_command.hpp"
#include "apps/last_catch.hpp"
#include "apps/output_check.hpp"
#include "apps/plan_command.hpp"
#include "config/explain.hpp"

namespace {

// `troupe-train` stands beside `troupe`, wherever both are installed.
int execute_beside(char** argv) {
  if (!troupe::apps::has_working_directory()) {  // the MKL inside LibTorch ends the process while it is loaded
    std::fprintf(stderr, "troupe: error: %s\n", troupe::apps::no_working_directory);
    return 1;
  }
  std::error_code e;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", e);
  const auto other = self.parent_path() / "troupe-train";
  // Every lane computes alone: a team would only change the order of sums, and cost threads that may be refused.
  ::setenv("OMP_NUM_THREADS", "1", 0);
  ::execv(other.c_str(), argv);
  std::fprintf(stderr, "troupe: error: cannot execute %s: %s\n", other.c_str(), std::strerror(errno));
  return 1;
}

int run(int argc, char** argv) {
  using namespace troupe;
  apps::open_missing_descriptors();
  if (argc > 1 && std::strcmp(argv[1], "train") == 0) return execute_beside(argv);

  CLI::App app{"trains transformer models whose states do not fit where they have to run", "troupe"};
  app.set_version_flag("--version", std::string(TROUPE_VERSION));
  app.require_subcommand(1);
  app.add_subcommand("train", "train the model that a topology describes (see troupe train --help)");
  apps::plan_command plan(app);
  auto* configuration = app.add_subcommand("config", "look at a configuration without running it");
  configuration->require_subcommand(1);
  apps::common_arguments a;
  const char* const any_file = "YAML, DeepSpeed JSON (base64 too), or what Accelerate writes";
  bool json = false, given = false;
  auto* check = configuration->add_subcommand("check", "is it right? every error at once");
  auto* explain =
      configuration->add_subcommand("explain", "every effective value, where it comes from and what it does");
  apps::add_common(*check, a, any_file);
  apps::add_common(*explain, a, any_file);
  check->add_flag("--json", json, "as JSON");
  explain->add_flag("--json", json, "as JSON");
  explain->add_flag("--given", given, "only what the file and --set say");

  auto* data = app.add_subcommand("data", "texts to tokens and back");
  data->require_subcommand(1);
  apps::tokenize_arguments t;
  auto* tokenize = data->add_subcommand("tokenize", "write a .bin of tokens that training reads without tokenising");
  tokenize->add_option("inputs", t.inputs, "text, .jsonl, .gz, .dz or folders, read in this order")->required();
  tokenize
      ->add_option("--tokenizer", t.tokenizer,
                   "bytes, a SentencePiece .model, or a folder with vocab.json and merges.txt")
      ->required();
  tokenize->add_option("--output", t.output, "NAME.bin; NAME.bin.json, written too, says what it holds")->required();
  tokenize->add_option("--text-key", t.text_key, "of JSON lines")->capture_default_str();
  tokenize->add_option("--dtype", t.dtype, "uint16 or uint32; by default what the vocabulary needs");
  tokenize->add_flag("--quiet", t.quiet, "say nothing unless it fails");
  apps::inspect_arguments i;
  auto* inspect = data->add_subcommand("inspect", "what a .bin holds: tokens, documents, vocabulary, first text");
  inspect->add_option("file", i.file, "NAME.bin")->required();
  inspect->add_option("--tokenizer", i.tokenizer, "decodes; by default the one that NAME.bin.json names");
  inspect->add_option("--dtype", i.dtype, "of a file without NAME.bin.json")->capture_default_str();
  inspect->add_option("--tokens", i.tokens, "decoded at most")->capture_default_str();

  auto* doctor = app.add_subcommand("doctor", "what this machine offers, what is missing and how to get it");
  std::string folder = ".";
  doctor->add_option("folder", folder, "where checkpoints or offloaded states shall go")->capture_default_str();
  doctor->add_flag("--json", json, "as JSON");
  apps::checkpoint_command checkpoint(app);
  apps::io_command io(app);
  apps::refuse_wrong_integers(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  if (plan.chosen()) return plan.measures() ? execute_beside(argv) : plan.run({});
  if (checkpoint.chosen()) return checkpoint.run();
  if (io.chosen()) return io.run();
  if (*doctor) return apps::doctor(folder, json);
  if (*tokenize) return apps::tokenize(t);
  if (*inspect) return apps::inspect(i);

  if (*check) return apps::check_configuration(a, json);
  const auto loaded = apps::load_configuration(a, std::nullopt, apps::intent::look, config::reading::either);
  if (!loaded) return 2;
  std::printf("%s\n", config::explain(*loaded, json, given).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace troupe::apps;
  return with_output_checked(with_last_catch([&] { return run(argc, argv); }));
}
