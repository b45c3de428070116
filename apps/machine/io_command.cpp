#include "apps/machine/io_command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>

#include "apps/base/common_options.hpp"
#include "apps/base/idle_options.hpp"
#include "apps/base/stop_request.hpp"
#include "apps/base/terminal.hpp"
#include "apps/checkpoint/checkpoint_arguments.hpp"
#include "apps/machine/io_report.hpp"
#include "apps/machine/io_sweep.hpp"
#include "apps/machine/machine.hpp"

namespace troupe::apps {

namespace {

using storage::queue_engine;

constexpr uint64_t mebi = uint64_t{1} << 20;
constexpr unsigned loops_max = 1000;

void add_options(CLI::App& c, io_arguments& a) {
  const std::map<std::string, queue_engine> engines = {
      {"best", queue_engine::best}, {"uring", queue_engine::uring}, {"threads", queue_engine::threads}};
  const CLI::AsSizeValue sizes(false);
  const auto list = [&](const char* name, auto& values, const char* help) {
    return c.add_option(name, values, help)->delimiter(',')->allow_extra_args(false)->capture_default_str();
  };
  c.add_option("folder", a.folder, "a folder on the disk to measure; an unnamed scratch file is made there")
      ->required();
  c.add_option("--size", a.bytes, "size of the scratch file; K, M and G are powers of 1024")
      ->transform(sizes)
      ->check(CLI::Range(uint64_t{1}, std::numeric_limits<uint64_t>::max() / 4))
      ->default_str(binary_text(a.bytes));
  list("--block-size", a.block_bytes, "size of one request, with K and M as for --size; 1M,4M tries both")
      ->transform(sizes);
  list("--queue-depth", a.queue_depths, "requests in flight in each thread's ring");
  list("--threads", a.threads, "threads, each with its own ring and its own part of the file");
  list("--single-submit", a.single_submit, "true: a system call for each request");
  list("--overlap-events", a.overlap_events, "false: the next requests wait until all earlier ones have ended");
  auto* read = c.add_flag("--read", a.read_only, "measure reads only");
  auto* write = c.add_flag("--write", a.write_only, "measure writes only");
  read->excludes(write);
  c.add_option("--loops", a.loops, "passes of each setting, of which the median counts")
      ->check(CLI::Range(1U, loops_max))
      ->capture_default_str();
  c.add_option("--final-loops", a.final_loops, "further passes of the best settings, which then decide")
      ->check(CLI::Range(0U, loops_max))
      ->capture_default_str();
  c.add_option("--engine", a.engine, "the way in which requests are made")
      ->transform(CLI::CheckedTransformer(engines, CLI::ignore_case).description(""))
      ->default_str("best")
      ->type_name("{best,uring,threads}");
  c.add_flag("--buffered", a.buffered, "read and write through the page cache");
  c.add_flag("--unregistered", a.unregistered, "do not register memory and file with the ring");
  add_json(c, a.form);
  add_quiet(c, a.verbosity, "show no line of progress");
}

core::result<void> measure(const io_arguments& a) {
  const stop_request stop;
  TROUPE_ASSIGN(const auto settings, settings_of(a));
  storage::throughput_options options;
  options.folder = a.folder;
  options.bytes = a.bytes;
  options.buffered = a.buffered;
  options.stop = [] { return stop_request::made(); };
  TROUPE_ASSIGN(auto probe, storage::throughput_probe::open(options));

  const bool shown = a.verbosity != verbosity::quiet && rewrites_lines(STDERR_FILENO);
  const auto points = sweep(probe, settings, a, [&](size_t pass, size_t of) {
    if (shown) rewrite_line(stderr, STDERR_FILENO, fmt::format("troupe io: pass {} of {}", pass + 1, of));
  });
  if (shown) rewrite_line(stderr, STDERR_FILENO, "");
  if (!points) return core::fail(points.error());

  io_report report;
  std::error_code e;
  const auto real = std::filesystem::canonical(a.folder, e);
  report.folder = e ? a.folder : real.string();
  report.file_system = e ? "" : file_system_of("/", real);
  report.bytes = probe.bytes();
  report.mode = storage::describe(probe.mode());
  report.engine = probe.engine();
  report.remarks = probe.remarks();
  if (a.unregistered && report.engine != "io_uring")
    report.remarks.emplace_back("--unregistered had no effect: threads register neither memory nor files");
  report.points = *points;
  if (settings.left_out > 0)
    report.remarks.push_back(
        fmt::format("{} settings were left out: they have more in flight than the file's {}; a "
                    "larger --size includes them",
                    settings.left_out, binary_text(a.bytes)));
  const std::string text = a.form == output_form::json
                               ? io_json(report)
                               : io_text(report, rewrites_lines(STDOUT_FILENO) ? bar_style::blocks : bar_style::ascii);
  std::fputs(text.c_str(), stdout);
  return {};
}

}  // namespace

io_command::io_command(CLI::App& parent)
    : program_command(parent, "io", "how fast a disk is, and the `aio` section that makes it so"),
      bench_arguments_(std::make_unique<io_arguments>()),
      tune_arguments_(std::make_unique<io_arguments>()) {
  command_->require_subcommand(1);
  command_->footer("Exit codes: 0 well; 1 failed; 2 arguments or folder refused; 130, 143 interrupted.");
  auto& b = *bench_arguments_;
  b.bytes = 1024 * mebi;
  b.block_bytes = {mebi};
  b.queue_depths = {1, 8, 32};
  b.threads = {1};
  b.single_submit = {false};
  b.overlap_events = {true};
  bench_ = command_->add_subcommand("bench", "sequential reads and writes with a few settings, or those given");
  add_options(*bench_, b);
  auto& t = *tune_arguments_;
  t.bytes = 512 * mebi;
  t.block_bytes = {mebi / 4, mebi, 8 * mebi};
  t.queue_depths = {8, 32, 128};
  t.threads = {1, 2, 4};
  t.single_submit = {false, true};
  t.overlap_events = {true, false};
  t.loops = 1;
  t.final_loops = 4;
  tune_ = command_->add_subcommand("tune", "the same measurement over all settings of `aio`");
  add_options(*tune_, t);
}

io_command::~io_command() = default;

int io_command::run() {
  const bool tunes = static_cast<bool>(*tune_);
  const auto& a = tunes ? *tune_arguments_ : *bench_arguments_;
  const auto ok = refuse_idle(
      given_in(tunes ? *tune_ : *bench_),
      {{a.engine != queue_engine::threads, "io_uring, which --engine threads does not use", {"--unregistered"}}});
  return ended(ok ? measure(a) : ok);
}

}  // namespace troupe::apps
