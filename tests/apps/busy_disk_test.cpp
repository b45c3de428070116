// Tests which steps are saved while the disk is still busy with the previous checkpoint. A replaced fdatasync() blocks
// until a test releases it, so that the result does not depend on time.
#include <sys/syscall.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "apps/base/training/checkpoints.hpp"
#include "checkpoint/commit/commit.hpp"
#include "checkpoint/native/manifest_file.hpp"
#include "tests/check_ok.hpp"
#include "tests/small_job.hpp"

namespace {

class gate {
 public:
  void close() { set(false); }
  void open() { set(true); }
  void pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_open_; });
  }

 private:
  void set(bool is_open) {
    const std::lock_guard lock(mutex_);
    is_open_ = is_open;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = true;
};

gate disk;

}  // namespace

/// Replaces the C library's fdatasync(), with which storage/ syncs a file, and blocks while the simulated disk is busy.
extern "C" int fdatasync(int file) {
  disk.pass();
  return static_cast<int>(::syscall(SYS_fdatasync, file));
}

BOOST_AUTO_TEST_SUITE(busy_disk)

using namespace troupe;
using namespace troupe::tests;

namespace {

/// A run that saves after every second step; the disk is busy from the start of the run.
class busy_run {
 public:
  explicit busy_run(const std::string& more)
      : config_(job_.config({"checkpoint={every_steps: 2" + more + "}", "output=" + (job_.folder() / "out").string()})),
        saved_(*config_, "", {},
               {[this](const std::string& line) { warnings_.push_back(line); },
                [this](const actors::save_report& e) { hear(e); }}) {
    actors::session_options options;
    options.config = config_;
    options.hooks.on_saved = [this](const actors::save_report& r) { saved_.note_save(r); };
    const auto start = check_ok(saved_.choose_start());
    auto opened = check_ok(actors::session::open(std::move(options)));
    session_ = std::move(*opened);
    BOOST_TEST_REQUIRE(saved_.begin(*start, *session_).has_value());
    disk.close();
  }
  ~busy_run() { disk.open(); }

  void step() { step_of(*session_); }
  void save(apps::checkpoints::moment why = apps::checkpoints::moment::step) {
    const auto did = saved_.after_step(*session_, why);
    BOOST_TEST(did.has_value(), (did ? "" : did.error().text));
  }
  void train(int steps) {
    for (int i = 0; i < steps; ++i) {
      step();
      save();
    }
  }
  /// Waits until all saves are written.
  void wait() { BOOST_TEST(session_->wait_for_saves().has_value()); }
  void prove_last() { BOOST_TEST(saved_.prove_last(*session_, false).has_value()); }
  /// Checks the steps of the checkpoints that are there.
  void holds(const std::vector<uint64_t>& steps) const {
    std::vector<uint64_t> there;
    for (const auto& x : std::filesystem::directory_iterator(job_.folder() / "out/checkpoints"))
      if (const auto step = checkpoint::step_of(x.path().filename().string())) there.push_back(*step);
    std::ranges::sort(there);
    BOOST_TEST(there == steps, boost::test_tools::per_element());
  }

  [[nodiscard]] const std::vector<uint64_t>& steps_written() const { return written_; }
  [[nodiscard]] uint64_t left_out() const { return saved_.counts().skipped; }
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
  apps::checkpoints& saved() { return saved_; }

 private:
  void hear(const actors::save_report& e) {
    const auto inside = check_ok(checkpoint::read_manifest(storage::real_files(), e.folder));
    BOOST_TEST(inside->content.run.step == e.step);
    BOOST_TEST(checkpoint::step_of(e.folder.filename().string()).value_or(0) == e.step);
    written_.push_back(e.step);
  }

  small_job job_;
  std::shared_ptr<const config::job_config> config_;
  std::vector<uint64_t> written_;
  std::vector<std::string> warnings_;
  apps::checkpoints saved_;
  std::unique_ptr<actors::session> session_;
};

constexpr auto at_the_end = apps::checkpoints::moment::end;

}  // namespace

BOOST_AUTO_TEST_CASE(training_waits_for_the_disk_so_that_a_checkpoint_that_stays_is_of_its_very_step) {
  busy_run run(", keep_every: 6, keep_last: 1");
  run.train(5);
  run.step();
  BOOST_TEST(run.steps_written().empty());
  disk.open();
  run.save();  // without the wait, the save of step 2 would still be in progress here
  run.train(1);
  run.step();
  run.save(at_the_end);
  BOOST_TEST(run.steps_written() == (std::vector<uint64_t>{2, 6, 8}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_late_checkpoint_has_the_number_of_the_step_that_it_holds) {
  busy_run run("");
  run.train(4);
  run.step();
  disk.open();
  run.wait();
  disk.close();
  run.save();
  run.train(2);
  run.step();
  disk.open();
  run.save(at_the_end);
  BOOST_TEST(run.steps_written() == (std::vector<uint64_t>{2, 5, 8}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(checkpoints_that_are_due_meanwhile_are_left_out_and_counted_where_the_file_says_so) {
  busy_run run(", when_busy: skip, keep_every: 6");
  run.train(7);
  run.step();
  disk.open();
  run.save(at_the_end);
  BOOST_TEST(run.steps_written() == (std::vector<uint64_t>{2, 8}), boost::test_tools::per_element());
  BOOST_TEST(run.left_out() == 2U);
}

BOOST_AUTO_TEST_CASE(a_checkpoint_that_is_due_while_the_loss_is_not_finite_is_written_once_it_is) {
  busy_run run(", keep_last: 1, asynchronous: false");
  disk.open();
  const auto steps = [&run](std::initializer_list<double> losses, uint64_t first) {
    for (const double loss : losses) {
      run.step();
      run.saved().note_loss(first++, loss);
      run.save();
    }
  };
  steps({5, 5}, 1);
  BOOST_TEST(!run.saved().broken().has_value());
  steps({5, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}, 3);
  BOOST_TEST(run.steps_written() == (std::vector<uint64_t>{2}), boost::test_tools::per_element());
  const auto broken = check_ok(run.saved().broken());
  BOOST_TEST(broken->text.starts_with("the loss has been inf since step 4; the newest checkpoint from before, of step "
                                      "2, is '"),
             broken->text);
  BOOST_TEST(run.saved().what_is_safe().starts_with("step 2 is safe in '"));
  run.save(apps::checkpoints::moment::asked);
  BOOST_TEST(run.warnings().size() == 2U);  // one warning came from the regular save and one answers the request
  steps({5}, 6);
  BOOST_TEST(!run.saved().broken().has_value());
  BOOST_TEST(run.steps_written() == (std::vector<uint64_t>{2, 6}), boost::test_tools::per_element());
  run.step();
  run.saved().note_loss(7, std::numeric_limits<double>::quiet_NaN());
  run.save(at_the_end);
  BOOST_TEST(run.steps_written().size() == 2U);
  BOOST_TEST(!run.saved().unsaved().has_value());
}

BOOST_AUTO_TEST_CASE(a_checkpoint_makes_older_ones_superfluous_once_its_weights_have_a_finite_loss) {
  for (const char* more : {", keep_last: 1, asynchronous: false", ", keep_last: 1"}) {
    BOOST_TEST_INFO_SCOPE(more);
    busy_run run(more);
    disk.open();
    for (int i = 0; i < 2; ++i) {
      run.train(2);
      run.wait();
    }
    run.holds({2, 4});
    run.train(1);
    run.holds({4});
    run.step();
    run.save(at_the_end);
    run.holds({4, 6});
    run.prove_last();
    run.holds({6});
  }
}

BOOST_AUTO_TEST_CASE(a_checkpoint_that_is_proved_while_it_is_written_removes_older_ones_when_it_is_complete) {
  busy_run run(", keep_last: 1");
  disk.open();
  run.train(3);
  run.wait();
  disk.close();
  run.train(2);
  run.holds({2});
  disk.open();
  run.wait();
  run.holds({4});
}

BOOST_AUTO_TEST_CASE(an_end_without_keep_last_removes_nothing_and_neither_does_a_loss_that_is_not_finite) {
  for (const char* more : {", asynchronous: false", ", keep_last: 1, asynchronous: false"}) {
    BOOST_TEST_INFO_SCOPE(more);
    busy_run run(more);
    disk.open();
    run.train(4);
    const bool keeps_all = std::string(more).find("keep_last") == std::string::npos;
    if (!keeps_all) run.saved().note_evaluation(4, std::numeric_limits<double>::quiet_NaN());
    run.save(at_the_end);
    run.prove_last();
    run.holds({2, 4});
  }
}

BOOST_AUTO_TEST_CASE(a_run_that_fails_names_the_checkpoint_with_its_weights_and_the_one_before) {
  busy_run run(", asynchronous: false");
  disk.open();
  for (uint64_t step = 1; step <= 4; ++step) {
    run.step();
    run.saved().note_loss(step, 5);
    run.save();
  }
  BOOST_TEST(run.saved().what_is_safe().starts_with("step 4 is safe in '"));
  run.saved().note_failure();
  const auto safe = run.saved().what_is_safe();
  BOOST_TEST(safe.starts_with("the checkpoint of step 4, '"), safe);
  BOOST_TEST(safe.find("', has the weights with which the run failed; the newest checkpoint from before, of step 2, is "
                       "'") != std::string::npos,
             safe);
  BOOST_TEST(run.saved().newest_unbroken()->step == 2U);
}

BOOST_AUTO_TEST_CASE(an_evaluation_breaks_what_a_step_breaks_and_mends_nothing) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  busy_run run(", asynchronous: false");
  disk.open();
  run.train(2);
  run.saved().note_evaluation(2, 5);
  BOOST_TEST(!run.saved().broken().has_value());
  run.saved().note_evaluation(2, nan);
  const auto by_evaluation = check_ok(run.saved().broken());
  BOOST_TEST(by_evaluation->text.starts_with("the validation loss has been nan since step 2; the checkpoint of step 2, "
                                             "'"),
             by_evaluation->text);
  run.step();
  run.saved().note_loss(3, nan);
  run.saved().note_evaluation(3, 5);
  const auto by_step = check_ok(run.saved().broken());
  BOOST_TEST(by_step->text.starts_with("the loss has been nan since step 2; "), by_step->text);
  run.saved().note_loss(4, 5);
  BOOST_TEST(!run.saved().broken().has_value());
}

BOOST_AUTO_TEST_SUITE_END()
