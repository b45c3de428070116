#include "apps/run/asking/ask_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

#include "apps/base/common_options.hpp"
#include "apps/base/error_line.hpp"
#include "apps/base/exit_code.hpp"
#include "apps/run/asking/ask_socket.hpp"
#include "core/json_text.hpp"
#include "core/text.hpp"

namespace troupe::apps {
namespace {

using nlohmann::json;

constexpr const char* replaces = "replace";

struct question {
  const char* name;
  const char* help;
};
constexpr question questions[] = {
    {"status", "the state of a run: step, loss, checkpoint"},
    {"diagnose", "what each rank of a run does and waits for, the cause first; also while it hangs"},
    {"pause", "makes a run wait after its step"},
    {"resume", "lets a paused run continue"},
    {"save", "makes a run save after its step, and waits for the checkpoint"},
    {"stop", "ends a run after its step, as Ctrl-C does"},
    {replaces, "lets a spare host take the place of another one after the step, and waits until it has"},
};

/// Returns a member as a number; NaN for null, since JSON has no NaN.
double number_in(const json& x, const char* key) {
  return x.contains(key) && x[key].is_number() ? x[key].get<double>() : std::numeric_limits<double>::quiet_NaN();
}

std::string ranks_text(const json& p) {
  const auto r = p.value("ranks", json::array());
  if (r.size() != 2 || !r[0].is_number_unsigned() || !r[1].is_number_unsigned()) return {};
  const auto first = r[0].get<uint64_t>(), count = r[1].get<uint64_t>();
  return count == 1 ? fmt::format(", rank {}", first) : fmt::format(", ranks {} to {}", first, first + count - 1);
}

void show_processes(const json& x) {
  std::printf("term %llu\n", x.value("term", 0ULL));
  for (const auto& p : x.value("processes", json::array())) {
    const std::string host = p.value("host", "");
    const auto losses = p.value("losses", 0U);
    std::printf("process %u%s, pid %llu: %s%s%s\n", p.value("process", 0U), host.empty() ? "" : (" on " + host).c_str(),
                p.value("pid", 0ULL), p.value("state", "").c_str(), ranks_text(p).c_str(),
                losses == 0   ? ""
                : losses == 1 ? ", lost once"
                              : fmt::format(", lost {} times", losses).c_str());
  }
}

void show_status(const json& x) {
  std::printf("%s, step %llu of %llu", x.value("phase", "").c_str(), x.value("step", 0ULL), x.value("steps", 0ULL));
  if (x.contains("loss"))
    std::printf(": loss %.4f %s, %.1f ms a step, %.0f tok/s, %s", number_in(x, "loss"),
                x.value("loss_unit", "").c_str(), 1e3 * number_in(x, "step_s"), number_in(x, "tokens_per_s"),
                core::human_bytes(x.value("memory_bytes", uint64_t{0})).c_str());
  std::printf("\n");
  if (x.contains("validation_loss")) std::printf("validation loss %.4f\n", number_in(x, "validation_loss"));
  if (x.contains("checkpoint")) std::printf("checkpoint: %s\n", x["checkpoint"].value("folder", "").c_str());
  if (x.contains("terms")) std::printf("%s\n", x.value("terms", "").c_str());
  if (x.contains("processes")) show_processes(x);
  if (x.contains("page")) std::printf("page %s\n", x.value("page", "").c_str());
}

void show_diagnosis(const json& x) {
  for (const auto& r : x.value("ranks", json::array()))
    std::printf("rank %u%s: %s%s%s\n", r.value("rank", 0U),
                r.contains("where")
                    ? fmt::format(" ({}, term {})", r.value("where", ""), r.value("term", uint64_t{0})).c_str()
                    : "",
                r.value("doing", "").c_str(), r.value("lanes", "").empty() ? "" : ": ", r.value("lanes", "").c_str());
}

}  // namespace

ask_command::ask_command(CLI::App& app) {
  for (const auto& q : questions) {
    auto* const one = app.add_subcommand(q.name, q.help);
    one->add_option("run", folder_, "the run's folder, its `output`")->required();
    if (q.name == replaces) one->add_option("host", host_, "as cluster.hosts names it")->required();
    add_json(*one, form_);
    commands_.push_back(one);
  }
}

bool ask_command::chosen() const {
  return std::ranges::any_of(commands_, [](const CLI::App* x) { return x->parsed(); });
}

int ask_command::run() const {
  const auto* const chosen = *std::ranges::find_if(commands_, [](const CLI::App* x) { return x->parsed(); });
  if (host_.find('\n') != std::string::npos)
    return failed({core::error_kind::bad_input, "HOST: wanted a name in one line, got '" + core::shown(host_) + "'"});
  const auto answer = ask_run(folder_, chosen->get_name() + (host_.empty() ? "" : " " + host_));
  if (!answer) return failed(answer.error());
  const auto parsed = core::parse_json<json>(*answer);
  const json x = parsed ? *parsed : json();
  if (!x.is_object())
    return failed({core::error_kind::mismatch, "the run's answer is not JSON: " + core::shown(*answer)});
  const bool good = !x.contains("error");
  if (form_ == output_form::json) {
    std::printf("%s\n", answer->c_str());
  } else if (!good) {
    print_error_line("troupe: error: " + x.value("error", std::string()));
  } else if (x.contains("ranks")) {
    show_diagnosis(x);
  } else if (x.contains("phase")) {
    show_status(x);
  } else {
    std::printf("%s\n", x.value("done", "").c_str());
  }
  return good ? 0 : 1;
}

}  // namespace troupe::apps
