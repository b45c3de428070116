// Tests device/memory.hpp on every backend.
#include "device/memory.hpp"

#include "tests/device/devices.hpp"

namespace troupe::device::tests {

BOOST_AUTO_TEST_SUITE(memory)

BOOST_AUTO_TEST_CASE(memory_of_every_tier_is_zeros_at_the_devices_alignment) {
  on_every_device([](device_id d) {
    for (const tier where : tiers)
      for (const uint64_t bytes : {uint64_t{1}, uint64_t{4096}, uint64_t{100'000}, (uint64_t{5} << 20) + 3}) {
        BOOST_TEST_INFO_SCOPE("bytes " << bytes);
        const auto m = taken(d, where, bytes);
        BOOST_TEST(m.bytes() >= bytes);
        BOOST_TEST(reinterpret_cast<uintptr_t>(m.data()) % properties_of(d).alignment_bytes == 0U);
        BOOST_TEST((m.device() == d && m.tier() == where));
        BOOST_TEST((held(m, bytes) == std::vector<std::byte>(bytes)));
      }
  });
}

BOOST_AUTO_TEST_CASE(memory_of_the_host_starts_at_a_whole_page_because_files_are_read_into_it) {
  on_every_device([](device_id d) {
    for (const tier where : {tier::huge, tier::pinned})
      for (const uint64_t bytes : {uint64_t{1}, uint64_t{4096}, uint64_t{100'000}}) {
        BOOST_TEST_INFO_SCOPE("bytes " << bytes);
        BOOST_TEST(reinterpret_cast<uintptr_t>(taken(d, where, bytes).data()) % 4096 == 0U);
      }
  });
}

BOOST_AUTO_TEST_CASE(zero_bytes_give_no_memory) {
  on_every_device([](device_id d) {
    for (const tier where : tiers) {
      const auto m = taken(d, where, 0);
      BOOST_TEST((m.data() == nullptr && m.bytes() == 0U));
      BOOST_TEST(!m.discard());
    }
    BOOST_TEST(device::memory().data() == nullptr);
  });
}

BOOST_AUTO_TEST_CASE(bytes_stay_where_they_are_when_the_owner_moves) {
  on_every_device([](device_id d) {
    auto first = taken(d, tier::device, 5000);
    const auto wanted = noise(5000, 1);
    stream s(d);
    s.copy(first.data(), wanted.data(), wanted.size());
    s.finish();
    const std::byte* const place = first.data();
    auto second = taken(d, tier::huge, 64);
    second = std::move(first);
    BOOST_TEST((second.data() == place && second.tier() == tier::device));
    BOOST_TEST((held(second, 5000) == wanted));
  });
}

BOOST_AUTO_TEST_CASE(discarded_memory_is_zeros_when_it_is_used_again) {
  on_every_device([](device_id d) {
    const auto m = taken(d, tier::huge, uint64_t{4} << 20);
    const auto before = noise(m.bytes(), 2);
    stream s(d);
    s.copy(m.data(), before.data(), before.size());
    s.finish();
    const bool given = m.discard();
    BOOST_TEST((held(m, m.bytes()) == (given ? std::vector<std::byte>(m.bytes()) : before)));
  });
}

BOOST_AUTO_TEST_CASE(only_memory_that_should_be_pinned_can_have_a_remark) {
  on_every_device([](device_id d) {
    for (const tier where : {tier::device, tier::huge}) BOOST_TEST(!taken(d, where, 1 << 20).remark());
    const auto pinned = taken(d, tier::pinned, 1 << 20);
    if (pinned.remark()) BOOST_TEST(pinned.remark()->starts_with("memory: cannot lock "), *pinned.remark());
  });
}

BOOST_AUTO_TEST_CASE(more_memory_than_the_device_has_is_refused_with_both_sizes) {
  on_every_device([](device_id d) {
    const auto refused = device::memory::allocate(d, tier::device, uint64_t{1} << 60);
    BOOST_REQUIRE(!refused);
    BOOST_TEST((refused.error().kind == core::error_kind::limit));
    BOOST_TEST(refused.error().text.find("wanted 1152921504606846976 bytes") != std::string::npos,
               refused.error().text);
    BOOST_TEST(refused.error().text.find("; " + properties_of(d).name + " has ") != std::string::npos,
               refused.error().text);
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::device::tests
