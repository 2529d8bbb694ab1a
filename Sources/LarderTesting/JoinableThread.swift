// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Synchronization

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// A thread of its own for work that blocks.
///
/// Swift's pool has as many threads as the machine has cores; two tests that wait for children on
/// it can keep a third from ever running.
///
/// ```swift
/// let reader = JoinableThread { try? child.nextLine() }
/// try child.send("go on")
/// #expect(reader.join() == "done")
/// ```
public final class JoinableThread<Value: Sendable>: Sendable {
  private let state: State
  private let thread: Mutex<pthread_t?>

  /// What thread and owner share. The thread holds a reference of its own.
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

  /// Waits for the end of the thread and returns what it returned. To be called once.
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

/// A closure as an object, which is what fits through a C argument.
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
