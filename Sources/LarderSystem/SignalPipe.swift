// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB
internal import Synchronization

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#else
internal import Darwin
#endif

/// The signals that arrived at this process, as bytes in a pipe: a wait for descriptors also waits
/// for them.
///
/// A process has at most one. It is only for a program that owns its process, such as a tool; a
/// library must not catch the signals of its host.
package enum SignalPipe {
  package struct Arrival: Sendable, Hashable {
    package let signal: CInt
    /// A terminal sent it, and so to the whole process group: the children have got it already.
    package let isFromTerminal: Bool
  }

  package static let interrupt = SIGINT
  package static let terminate = SIGTERM
  package static let hangUp = SIGHUP
  package static let quit = SIGQUIT
  package static let killSignal = SIGKILL
  package static let brokenPipe = SIGPIPE
  package static let childChanged = SIGCHLD
  package static let windowChanged = SIGWINCH
  package static let terminalStop = SIGTSTP
  package static let continued = SIGCONT

  /// The pipe's write end, for the handler; it takes no lock.
  private static let writeEnd = Atomic<CInt>(-1)
  private static let readEnd = Atomic<CInt>(-1)

  /// Catches these signals from here on, and ignores a broken pipe, which then is an error of the
  /// write. A second call uses the same pipe.
  ///
  /// A signal that is ignored when this is called stays ignored: `nohup` means it.
  ///
  /// - Returns: The descriptor that becomes readable when one has come.
  package static func open(_ signals: [CInt]) throws(SystemError) -> CInt {
    if readEnd.load(ordering: .relaxed) < 0 {
      let pipe = try PipePair()
      setNonBlocking(pipe.readEnd)
      setNonBlocking(pipe.writeEnd)
      readEnd.store(pipe.readEnd, ordering: .relaxed)
      writeEnd.store(pipe.writeEnd, ordering: .releasing)
    }
    for signal in signals where signal == SIGCHLD || !isIgnored(signal) {
      var action = sigaction()
      // No SA_RESTART: a write that waits for its reader has to return when a signal arrives.
      action.sa_flags = SA_SIGINFO
      let handler:
        @convention(c) (CInt, UnsafeMutablePointer<siginfo_t>?, UnsafeMutableRawPointer?)
          -> Void = { signal, info, _ in
            let saved = errno
            // A terminal's signals are the kernel's own (a positive code); kill's are not.
            let isKernel = unsafe (info?.pointee.si_code ?? 0) > 0
            var byte = UInt8(truncatingIfNeeded: signal) | (isKernel ? 0x80 : 0)
            _ = unsafe write(SignalPipe.writeEnd.load(ordering: .acquiring), &byte, 1)
            errno = saved
          }
      #if canImport(Darwin)
      unsafe action.__sigaction_u.__sa_sigaction = handler
      #else
      unsafe action.__sigaction_handler.sa_sigaction = handler
      #endif
      unsafe sigaction(signal, &action, nil)
    }
    _ = signal(SIGPIPE, SIG_IGN)
    return readEnd.load(ordering: .relaxed)
  }

  /// Returns the signals that arrived since the last call.
  package static func take() -> [Arrival] {
    let descriptor = readEnd.load(ordering: .relaxed)
    guard descriptor >= 0, let bytes = try? RawDescriptor.read(descriptor, count: 256) else {
      return []
    }
    return bytes.map { Arrival(signal: CInt($0 & 0x7F), isFromTerminal: $0 & 0x80 != 0) }
  }

  private static func setNonBlocking(_ descriptor: CInt) {
    _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
  }

  private static func isIgnored(_ signal: CInt) -> Bool {
    var action = sigaction()
    guard unsafe sigaction(signal, nil, &action) == 0 else { return false }
    #if canImport(Darwin)
    return unsafe unsafeBitCast(action.__sigaction_u.__sa_handler, to: Int.self) == 1
    #else
    return unsafe unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self) == 1
    #endif
  }

  /// Ends this process and runs its exit handlers.
  package static func end(_ code: CInt) -> Never { exit(code) }

  /// Ends this process by a signal, so that its parent gets the same status as that of the child.
  package static func die(of signal: CInt) -> Never {
    // The child has written its core file; a core file of this process would be useless.
    var limit = rlimit(rlim_cur: 0, rlim_max: 0)
    #if canImport(Glibc)
    _ = unsafe setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &limit)
    #else
    _ = unsafe setrlimit(RLIMIT_CORE, &limit)
    #endif
    restore(signal)
    raise(signal)
    // The signal did not end the process: use a shell's exit status.
    exit(128 + signal)
  }

  /// Stops this process as SIGTSTP does by default, and returns when it continues.
  package static func suspend() {
    restore(SIGTSTP)
    kill(getpid(), SIGTSTP)
    _ = try? open([SIGTSTP])
  }

  private static func restore(_ number: CInt) {
    _ = signal(number, SIG_DFL)
    var set = sigset_t()
    _ = unsafe sigemptyset(&set)
    _ = unsafe sigaddset(&set, number)
    _ = unsafe pthread_sigmask(SIG_UNBLOCK, &set, nil)
  }
}
