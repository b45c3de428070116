// Tests device/stream.hpp on every backend: copies in order, and events for which other streams wait.
#include "device/stream.hpp"

#include <thread>

#include "tests/device/devices.hpp"

namespace troupe::device::tests {

BOOST_AUTO_TEST_SUITE(stream)

BOOST_AUTO_TEST_CASE(bytes_arrive_between_all_tiers) {
  on_every_device([](device_id d) {
    const auto wanted = noise((uint64_t{3} << 20) + 17, 3);
    for (const tier a : tiers)
      for (const tier b : tiers) {
        const auto first = taken(d, a, wanted.size()), second = taken(d, b, wanted.size());
        device::stream s(d);
        s.copy(first.data(), wanted.data(), wanted.size());
        s.copy(second.data(), first.data(), wanted.size());
        s.finish();
        BOOST_TEST((held(second, wanted.size()) == wanted));
      }
  });
}

BOOST_AUTO_TEST_CASE(a_copy_of_no_bytes_does_nothing) {
  on_every_device([](device_id d) {
    device::stream s(d);
    s.copy(nullptr, nullptr, 0);
    s.finish();
  });
}

BOOST_AUTO_TEST_CASE(a_stream_keeps_its_order) {
  on_every_device([](device_id d) {
    const uint64_t bytes = uint64_t{1} << 20;
    const auto place = taken(d, tier::device, bytes);
    const auto out = taken(d, tier::pinned, 20 * bytes);
    std::vector<std::vector<std::byte>> sent;
    for (uint64_t i = 0; i < 20; ++i) sent.push_back(noise(bytes, 10 + i));
    device::stream s(d);
    for (uint64_t i = 0; i < 20; ++i) {  // each copy overwrites the source of the previous copy
      s.copy(place.data(), sent[i].data(), bytes);
      s.copy(out.data() + i * bytes, place.data(), bytes);
    }
    s.finish();
    const auto got = held(out, 20 * bytes);
    for (uint64_t i = 0; i < 20; ++i)
      BOOST_TEST(std::equal(sent[i].begin(), sent[i].end(), got.begin() + static_cast<long>(i * bytes)));
  });
}

BOOST_AUTO_TEST_CASE(an_event_is_over_when_the_work_before_it_is_done) {
  on_every_device([](device_id d) {
    const auto wanted = noise(uint64_t{8} << 20, 4);
    const auto place = taken(d, tier::device, wanted.size()), back = taken(d, tier::pinned, wanted.size());
    event at;
    BOOST_TEST(at.is_over());  // an event that was never recorded counts as reached
    device::stream s(d);
    s.wait(at);
    s.copy(place.data(), wanted.data(), wanted.size());
    s.copy(back.data(), place.data(), wanted.size());
    s.record(at);
    while (!at.is_over()) std::this_thread::yield();
    BOOST_TEST(std::equal(wanted.begin(), wanted.end(), back.data()));  // the host can read pinned memory
    s.record(at);
    s.finish();
    BOOST_TEST(at.is_over());
  });
}

BOOST_AUTO_TEST_CASE(work_behind_an_event_sees_the_work_before_it) {
  on_every_device([](device_id d) {
    const uint64_t bytes = uint64_t{2} << 20;
    const auto place = taken(d, tier::device, bytes), out = taken(d, tier::pinned, bytes);
    for (uint64_t round = 0; round < 20; ++round) {
      BOOST_TEST_INFO_SCOPE("round " << round);
      const auto wanted = noise(bytes, 100 + round);
      device::stream writes(d), reads(d);
      event written, read;
      writes.copy(place.data(), wanted.data(), bytes);
      writes.record(written);
      std::thread([&] {  // a thread of another lane
        reads.wait(written);
        reads.copy(out.data(), place.data(), bytes);
        reads.record(read);
      })
          .join();
      const std::vector<std::byte> zeros(bytes);
      writes.wait(read);  // the copy waits until the memory may be overwritten
      writes.copy(place.data(), zeros.data(), bytes);
      writes.finish();
      reads.finish();
      BOOST_TEST(std::equal(wanted.begin(), wanted.end(), out.data()));
      BOOST_TEST((held(place, bytes) == zeros));
    }
  });
}

BOOST_AUTO_TEST_CASE(torch_has_the_stream_that_a_thread_continues_and_then_the_one_that_it_had_before) {
  provide_fake_cuda();
  const device_id gpu{device_kind::cuda};
  device::stream others(gpu);
  std::thread([&] {
    char of_host{};
    torch_stream() = &of_host;
    {
      const current_stream here(others);
      BOOST_TEST(torch_stream() == others.native());
      BOOST_TEST(&device::stream::current(gpu) == &others);
      BOOST_TEST(torch_stream() == others.native());
    }
    BOOST_TEST(torch_stream() == &of_host);
    auto& own = device::stream::current(gpu);
    BOOST_TEST(torch_stream() == own.native());
    { const current_stream here(others); }
    BOOST_TEST(torch_stream() == own.native());
  }).join();
}

BOOST_AUTO_TEST_CASE(every_thread_has_a_stream_of_its_own) {
  on_every_device([](device_id d) {
    auto& mine = device::stream::current(d);
    BOOST_TEST((&mine == &device::stream::current(d) && mine.device() == d));
    device::stream* others = nullptr;
    std::thread([&] { others = &device::stream::current(d); }).join();
    BOOST_TEST((others != nullptr && others != &mine));
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::device::tests
