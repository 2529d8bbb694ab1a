// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#else
internal import Darwin
#endif

/// An event that is set once, for which threads of this process wait.
@safe
package final class Event: Sendable {
  // pthread objects must not move, so each has separate heap memory.
  private nonisolated(unsafe) let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(
    capacity: 1)
  private nonisolated(unsafe) let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(
    capacity: 1)
  // Guarded by `mutex`.
  private nonisolated(unsafe) var isSet = false

  package init() {
    unsafe mutex.initialize(to: pthread_mutex_t())
    unsafe condition.initialize(to: pthread_cond_t())
    unsafe pthread_mutex_init(mutex, nil)
    #if canImport(Darwin)
    unsafe pthread_cond_init(condition, nil)
    #else
    var attributes = pthread_condattr_t()
    unsafe pthread_condattr_init(&attributes)
    unsafe pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
    unsafe pthread_cond_init(condition, &attributes)
    unsafe pthread_condattr_destroy(&attributes)
    #endif
  }

  deinit {
    unsafe pthread_cond_destroy(condition)
    unsafe pthread_mutex_destroy(mutex)
    unsafe condition.deallocate()
    unsafe mutex.deallocate()
  }

  /// Wakes every present waiter; later waiters do not wait.
  package func set() {
    unsafe pthread_mutex_lock(mutex)
    unsafe isSet = true
    unsafe pthread_cond_broadcast(condition)
    unsafe pthread_mutex_unlock(mutex)
  }

  /// Clears the event, so that later waiters wait again.
  package func reset() {
    unsafe pthread_mutex_lock(mutex)
    unsafe isSet = false
    unsafe pthread_mutex_unlock(mutex)
  }

  /// Waits until the event is set; returns `false` if the deadline passed first.
  @discardableResult
  package func wait(nanoseconds: UInt64? = nil) -> Bool {
    unsafe pthread_mutex_lock(mutex)
    defer { unsafe pthread_mutex_unlock(mutex) }
    guard let nanoseconds else {
      while unsafe !isSet { unsafe pthread_cond_wait(condition, mutex) }
      return true
    }
    let deadline = Clocks.monotonicNanoseconds() &+ nanoseconds
    while unsafe !isSet {
      let now = Clocks.monotonicNanoseconds()
      if now >= deadline { return false }
      #if canImport(Darwin)
      let left = deadline - now
      var span = timespec(
        tv_sec: Int(left / 1_000_000_000), tv_nsec: Int(left % 1_000_000_000))
      unsafe pthread_cond_timedwait_relative_np(condition, mutex, &span)
      #else
      var time = timespec(
        tv_sec: Int(deadline / 1_000_000_000), tv_nsec: Int(deadline % 1_000_000_000))
      unsafe pthread_cond_timedwait(condition, mutex, &time)
      #endif
    }
    return true
  }
}
