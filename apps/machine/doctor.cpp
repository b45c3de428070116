#include "apps/machine/doctor.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/base/programs.hpp"
#include "core/system/cores.hpp"
#include "models/cuda/library_file.hpp"

namespace troupe::apps {
namespace fs = std::filesystem;
namespace {

const char* condition_name(condition c) {
  switch (c) {
    case condition::fine:
      return "fine";
    case condition::poor:
      return "poor";
    case condition::missing:
      return "missing";
  }
  return "";
}

bool fit(const std::vector<finding>& all) {
  return std::none_of(all.begin(), all.end(), [](const finding& f) { return f.is == condition::missing; });
}

tried_facts try_everything(const std::string& folder) {
  tried_facts t;
  t.usable_cores = core::usable_cores();
  t.io_uring = try_io_uring();
  t.lock = try_lock(memlock_wanted_bytes);
  t.queue = try_queue();
  t.cuda = try_cuda();
  t.folder = try_folder(folder);
  if (const char* const limit = std::getenv("ATEN_CPU_CAPABILITY"); limit != nullptr) t.aten_limit = limit;
  std::error_code e;
  const fs::path here = own_folder();
  const auto trainer = trainer_program(here, "troupe train");
  t.cuda_library = try_cuda_library(cuda_opener_folder());
  t.train_program = trainer ? trainer->string() : trainer.error().text;
  if (!trainer && trainer.error().kind == core::error_kind::mismatch) t.train_mend = "pip install 'troupe[train]'";
  t.train_program_there = trainer && fs::is_regular_file(*trainer, e);
  const fs::path installed = here.parent_path() / "lib" / "troupe" / "torch" / "lib";
  if (here.filename() == "bin" && trainer && trainer->parent_path() == here) {
    t.torch_library = (installed / "libtorch_cpu.so").string();
    t.torch_library_there = fs::is_regular_file(t.torch_library, e);
  }
  return t;
}

}  // namespace

build_versions versions() {
  return {TROUPE_VERSION,          "g++ " __VERSION__,   TROUPE_CAF_VERSION,
          TROUPE_LIBTORCH_VERSION, TROUPE_LIBTORCH_CUDA, !models::find_cuda_library(cuda_opener_folder()).empty()};
}

std::string doctor_text(const build_versions& v, const std::vector<finding>& all) {
  std::string out = "troupe " + v.troupe + " (" + v.compiler + ", CAF " + v.caf + ", LibTorch " + v.libtorch +
                    (v.libtorch_cuda.empty() ? "" : " for CUDA " + v.libtorch_cuda) +
                    ", CUDA kernels: " + (v.cuda ? "yes" : "no") + ")\n";
  for (const auto& f : all) {
    char head[32];
    std::snprintf(head, sizeof head, "%-8s%-13s", condition_name(f.is), f.topic.c_str());
    out += head + f.found + "\n";
    const std::string indent(21, ' ');
    if (!f.costs.empty()) out += indent + "costs: " + f.costs + "\n";
    if (!f.command.empty()) out += indent + "mend:  " + f.command + "\n";
  }
  return out;
}

std::string doctor_json(const build_versions& v, const std::vector<finding>& all) {
  nlohmann::ordered_json j;
  j["versions"] = {{"troupe", v.troupe},     {"compiler", v.compiler},           {"caf", v.caf},
                   {"libtorch", v.libtorch}, {"libtorch_cuda", v.libtorch_cuda}, {"cuda_kernels", v.cuda}};
  j["findings"] = nlohmann::ordered_json::array();
  for (const auto& f : all)
    j["findings"].push_back({{"topic", f.topic},
                             {"condition", condition_name(f.is)},
                             {"found", f.found},
                             {"costs", f.costs},
                             {"command", f.command}});
  j["fit"] = fit(all);
  // Replaces invalid UTF-8, since paths may contain any bytes.
  return j.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

int doctor(const std::string& folder, output_form form) {
  const auto all = examine(read_machine("/"), try_everything(folder));
  const auto told = form == output_form::json ? doctor_json : doctor_text;
  std::fputs(told(versions(), all).c_str(), stdout);
  return fit(all) ? 0 : 1;
}

}  // namespace troupe::apps
