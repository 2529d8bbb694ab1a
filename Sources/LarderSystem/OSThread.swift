// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#else
internal import Darwin
#endif

/// Threads of the operating system, for work that must stay on one: LMDB's writer mutex belongs to
/// a thread, and Swift's pool must never be blocked.
package enum OSThread {
  /// A number that identifies the calling thread among the living threads of this process.
  @inline(__always)
  package static var token: UInt64 { larder_thread_token() }

  /// Yields the processor to another thread.
  package static func yield() { sched_yield() }

  package static let coreCount: Int = max(Int(sysconf(CInt(_SC_NPROCESSORS_ONLN))), 1)

  /// Starts a detached thread.
  package static func start(_ body: @escaping @Sendable () -> Void) throws(SystemError) {
    let box = unsafe Unmanaged.passRetained(Body(body))
    var attributes = pthread_attr_t()
    unsafe pthread_attr_init(&attributes)
    defer { unsafe pthread_attr_destroy(&attributes) }
    unsafe pthread_attr_setdetachstate(&attributes, CInt(PTHREAD_CREATE_DETACHED))
    #if canImport(Darwin)
    var thread: pthread_t?
    #else
    var thread = pthread_t()
    #endif
    let code = unsafe pthread_create(
      &thread, &attributes,
      { argument in
        #if canImport(Darwin)
        let box = unsafe Unmanaged<Body>.fromOpaque(argument).takeRetainedValue()
        #else
        let box = unsafe Unmanaged<Body>.fromOpaque(argument!).takeRetainedValue()
        #endif
        box.run()
        return nil
      }, box.toOpaque())
    guard code == 0 else {
      unsafe box.release()
      throw SystemError(errno: code, operation: "pthread_create")
    }
  }

  private final class Body: Sendable {
    let run: @Sendable () -> Void
    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
  }

  /// Runs `body` with SIGXFSZ blocked, so that a file-size limit is an error of the write and
  /// never a signal. Costs four system calls: only for processes that have such a limit.
  package static func blockingSIGXFSZ<R, E: Error>(
    _ body: () throws(E) -> R
  ) throws(E) -> R {
    var blocked = sigset_t()
    var previous = sigset_t()
    unsafe sigemptyset(&blocked)
    unsafe sigaddset(&blocked, SIGXFSZ)
    unsafe pthread_sigmask(SIG_BLOCK, &blocked, &previous)
    defer {
      #if canImport(Darwin)
      var pending = sigset_t()
      unsafe sigpending(&pending)
      if unsafe sigismember(&pending, SIGXFSZ) == 1 {
        var signal: CInt = 0
        unsafe sigwait(&blocked, &signal)
      }
      #else
      var now = timespec()
      while unsafe sigtimedwait(&blocked, nil, &now) > 0 {}
      #endif
      unsafe pthread_sigmask(SIG_SETMASK, &previous, nil)
    }
    return try body()
  }
}
