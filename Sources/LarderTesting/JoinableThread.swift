// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Synchronization

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// A thread for blocking work.
///
/// Swift's cooperative pool has as many threads as the machine has cores, so on two cores two tests
/// that wait for children there prevent a third from running.
///
/// ```swift
/// let reader = JoinableThread { try? child.nextLine() }
/// try child.send("continue")
/// #expect(reader.join() == "done")
/// ```
public final class JoinableThread<Value: Sendable>: Sendable {
  private let state: State
  private let thread: Mutex<pthread_t?>

  /// The state that thread and owner share. Both retain it.
  private final class State: Sendable {
    let body: @Sendable () -> Value
    let value = Mutex<Value?>(nil)

    init(_ body: @escaping @Sendable () -> Value) { self.body = body }
    func run() {
      let result = body()
      value.withLock { $0 = result }
    }
  }

  /// Starts the thread.
  public init(_ body: @escaping @Sendable () -> Value) {
    let state = State(body)
    self.state = state
    let argument = unsafe Unmanaged.passRetained(RunOnce(state.run)).toOpaque()
    #if canImport(Darwin)
    var identifier: pthread_t?
    #else
    var identifier = pthread_t()
    #endif
    let result = unsafe pthread_create(&identifier, nil, startOwnThread, argument)
    precondition(result == 0, "pthread_create failed with \(result): too many threads?")
    thread = Mutex(identifier)
  }

  /// Waits for the end of the thread and returns its result. Call it once.
  public func join() -> Value {
    guard let identifier = thread.withLock({ $0.take() }) else {
      preconditionFailure("A thread is joined once.")
    }
    _ = pthread_join(identifier, nil)
    return state.value.withLock { $0! }
  }

  deinit {
    if let identifier = thread.withLock({ $0.take() }) { _ = pthread_detach(identifier) }
  }
}

/// A closure as an object, which a C argument can carry.
private final class RunOnce {
  let body: () -> Void
  init(_ body: @escaping () -> Void) { self.body = body }
}

#if canImport(Darwin)
private func startOwnThread(_ argument: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer? {
  unsafe Unmanaged<RunOnce>.fromOpaque(argument).takeRetainedValue().body()
  return nil
}
#else
private func startOwnThread(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
  unsafe Unmanaged<RunOnce>.fromOpaque(argument!).takeRetainedValue().body()
  return nil
}
#endif
