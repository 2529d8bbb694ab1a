// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Testing

extension Processes {
  @Test(.timeLimit(.minutes(60)))
  func `Writes that wait for a stopped writer fail and name it, and reads continue`() throws {
    let ground = try StoreFixture()
    try ground.numbers.setValue("before", forKey: 1)
    let holder = try ground.peer()
    let others = try (0..<2).map { _ in try ground.peer("timeout=1000") }
    #expect(try holder.ask("hold") == "holding")
    try holder.stop()
    let pid = holder.processIdentifier
    // From the first moment on, and again once it is known to hang.
    for round in 0..<2 {
      for other in others { try other.send("set \(10 + round) lost") }
      for other in others {
        let answer = try other.nextLine()
        #expect(answer.hasPrefix("error writerStalled \(pid) "), "\(answer)")
      }
      for other in others {
        #expect(try other.ask("get 1") == "value before")
        #expect(try other.ask("count") == "1")
      }
    }
    // Checking is reading.
    #expect(try others[1].ask("verify") == "sound")
    // A compaction is not.
    let answer = try others[1].ask("compact")
    #expect(answer.hasPrefix("error writerStalled \(pid) "), "\(answer)")
    // Pending writes wait for as long as it takes, and their own process reads them.
    try others[0].order("behind 20 later")
    #expect(try others[0].ask("get 20") == "value later")
    #expect(try others[1].ask("get 20") == "none")
    holder.continue()
    try holder.order("go")
    // The limit of these processes is short: a busy machine may exceed it.
    func repeated(_ peer: ChildProcess, _ line: String) throws {
      try eventually("\(line) succeeds") {
        let answer = try peer.ask(line)
        try #require(answer == "ok" || answer.hasPrefix("error writerStalled "), "\(answer)")
        return answer == "ok"
      }
    }
    try repeated(others[0], "sync")
    #expect(ground.numbers[20] == "later")
    // The refused write was not stored later.
    #expect(ground.numbers[10] == nil && ground.numbers[11] == nil)
    for (index, peer) in (others + [holder]).enumerated() {
      try repeated(peer, "set 1 after \(index)")
      #expect(ground.numbers[1] == "after \(index)")
    }
    #expect(try ground.store.verify() == [])
    for peer in others + [holder] { try peer.dismiss() }
  }

  @Test(.timeLimit(.minutes(60)))
  func `After a stopped writer is killed all other processes can write`() throws {
    let ground = try StoreFixture()
    let holder = try ground.peer()
    let other = try ground.peer("timeout=600000")
    #expect(try holder.ask("hold") == "holding")
    try holder.stop()
    try other.send("set 1 queued")
    holder.kill()
    try other.expect("ok")
    #expect(ground.numbers[1] == "queued")
    #expect(try ground.store.bytes(forKey: "held") == nil)
    #expect(try ground.store.verify() == [])
    try other.dismiss()
  }

  @Test(.timeLimit(.minutes(60)))
  func `A wake-up that a stopped and killed writer had taken is made up for`() throws {
    let ground = try StoreFixture()
    let table = try ground.store.core.generation().table
    let peers = try (0..<3).map { _ in try ground.peer("timeout=600000") }
    let (holder, victim, waiter) = (peers[0], peers[1], peers[2])
    #expect(try holder.ask("hold") == "holding")
    try victim.send("set 1 never")
    try eventually("the writer waits") { table.isTicketAwaited }
    try victim.stop()
    try waiter.send("set 2 second")
    // Of the two waiters the stopped one may be woken.
    try holder.order("go")
    try waiter.expect("ok")
    try holder.order("set 0 last")
    victim.kill()
    #expect(try victim.wait() == .killed)
    #expect(try waiter.ask("get 0") == "value last")
    #expect(try waiter.ask("get 1") == "none")
    #expect(try holder.ask("get 2") == "value second")
    #expect(try waiter.ask("verify") == "sound")
    try holder.dismiss()
    try waiter.dismiss()
  }

  @Test(.timeLimit(.minutes(60)))
  func `Asynchronous writers that wait for a stopped writer fail and name it`() async throws {
    let ground = try StoreFixture(StoreOptions(writeTimeout: .milliseconds(300)))
    let holder = try ground.peer()
    #expect(try holder.ask("hold") == "holding")
    try holder.stop()
    let (numbers, store) = (ground.numbers, ground.store)
    let writers: [@Sendable () async throws -> Void] = [
      { try await numbers.setValue("lost", forKey: 1) },
      { _ = try await numbers.removeValue(forKey: 2) },
      { try await store.write { try $0.setBytes([1], forKey: 3, in: "own") } },
      { try await numbers.setValue("lost", forKey: 4) },
    ]
    let tasks = writers.map { writer in
      Task.detached { () -> StoreError? in
        do { try await writer() } catch { return error as? StoreError }
        return nil
      }
    }
    for task in tasks {
      let error = await task.value
      #expect(error?.code == .writerStalled)
      #expect(error?.pid == holder.processIdentifier)
    }
    holder.continue()
    try holder.order("go")
    // A refused write is not stored later, and the store works again. Other tests may keep the threads of
    // Swift's pool for longer than the limit.
    try await awaitEventually("a value is stored") {
      do {
        try await numbers.setValue("after", forKey: 9)
        return true
      } catch let error as StoreError where error.code == .writerStalled {
        return false
      }
    }
    #expect(numbers[1] == nil && numbers[4] == nil && numbers[9] == "after")
    #expect(try store.bytes(forKey: 3, in: "own") == nil)
    try holder.dismiss()
  }

  @Test(.timeLimit(.minutes(60)))
  func `A writer waits at most its limit wherever another one is stopped`() throws {
    let ground = try StoreFixture(StoreOptions(writeTimeout: .milliseconds(200)))
    let peer = try ground.peer()
    let clock = ContinuousClock()
    var stalls = 0
    for round in 0..<40 {
      try peer.send("churn 1000 50")
      for key in 0..<(5 + round) {
        // On a busy machine the peer may be off the processor for as long.
        do { try ground.numbers.setValue("mine", forKey: key) } catch let error as StoreError {
          #expect(error.code == .writerStalled)
        }
      }
      try peer.stop()
      for key in 0..<3 {
        let start = clock.now
        do {
          try ground.numbers.setValue("mine \(round)", forKey: key)
        } catch let error as StoreError {
          stalls += 1
          #expect(error.code == .writerStalled && error.pid == peer.processIdentifier)
        }
        #expect(clock.now - start < .seconds(120))
      }
      peer.continue()
      let churned = try peer.numbers("stop", "churned")
      #expect(churned[1] == 0)
    }
    print("stopped inside a write: \(stalls) of 120 calls")
    #expect(try ground.store.verify() == [])
    try peer.dismiss()
  }

  @Test(.timeLimit(.minutes(60)))
  func `A computed value is returned while another process is stopped inside a write`()
    async throws
  {
    func stopWriter(
      _ limit: Duration
    ) throws -> (ground: StoreFixture, holder: ChildProcess, failures: Progress) {
      let failures = Progress()
      var options = StoreOptions(writeTimeout: limit, onError: { _ in failures.step() })
      // The sync of an idle store could fail before the value is stored.
      options.idleSyncDelay = nil
      let ground = try StoreFixture(options)
      let holder = try ground.peer()
      #expect(try holder.ask("hold") == "holding")
      try holder.stop()
      return (ground, holder, failures)
    }
    // Long before the limit of a write.
    do {
      let (ground, holder, failures) = try stopWriter(.seconds(3600))
      #expect(try await ground.numbers.value(forKey: 1) { "computed" } == "computed")
      // Callers of this process get the same, and compute nothing.
      #expect(try await ground.numbers.value(forKey: 1) { "again" } == "computed")
      for key in 100..<108 {
        #expect(try await ground.numbers.value(forKey: key) { "computed" } == "computed")
      }
      #expect(failures.value == 0)
      holder.continue()
      try holder.order("go")
      try holder.dismiss()
    }
    // A value that could not be stored is an error without a caller.
    let (ground, holder, failures) = try stopWriter(.seconds(2))
    #expect(try await ground.numbers.value(forKey: 1) { "computed" } == "computed")
    try await awaitEventually("the value could not be stored") { failures.value > 0 }
    holder.continue()
    try holder.order("go")
    // The error is reported a moment before the computation has ended.
    try await awaitEventually("a value is computed again") {
      try await ground.numbers.value(forKey: 1) { "later" } == "later"
    }
    #expect(ground.numbers[1] == "later")
    try holder.dismiss()
  }

  @Test(.timeLimit(.minutes(60)))
  func `A computed value is returned during a transaction of the same process`() async throws {
    let ground = try StoreFixture()
    let (begun, end) = (Progress(), Progress())
    let store = ground.store
    let writer = JoinableThread {
      try? store.write { _ in
        begun.step()
        try eventually("the test goes on") { end.value > 0 }
      }
    }
    try await awaitEventually("the transaction is open") { begun.value > 0 }
    #expect(try await ground.numbers.value(forKey: 1) { "computed" } == "computed")
    end.step()
    writer.join()
    // It is stored when the writer continues, and then every process reads it. The call has returned before,
    // so that a sync may find nothing queued yet.
    let peer = try ground.peer()
    try await awaitEventually("the value is stored") { try peer.ask("get 1") == "value computed" }
    #expect(try await ground.numbers.value(forKey: 2) { "second" } == "second")
    try await awaitEventually("another is stored") { try peer.ask("get 2") == "value second" }
    try peer.dismiss()
  }

  @Test(.timeLimit(.minutes(60)))
  func `A caller waits for its own limit once, as a member of the queue and as its leader`() throws
  {
    // A caller that waited twice would do so each time. A busy machine delays some callers, which counts less and less
    // against a longer limit.
    for seconds in [4, 4, 8, 16, 32, 64] {
      let limit = Duration.seconds(seconds)
      if try longestWait(limit) < limit * 7 / 4 { return }
    }
    Issue.record("A caller waited for nearly twice its limit, each time.")
  }

  /// Lets callers queue behind a stopped writer, and returns the longest time until one of them failed.
  private func longestWait(_ limit: Duration) throws -> Duration {
    let ground = try StoreFixture(StoreOptions(writeTimeout: limit))
    let holder = try ground.peer()
    #expect(try holder.ask("hold") == "holding")
    try holder.stop()
    let (numbers, store) = (ground.numbers, ground.store)
    let calls: [@Sendable () throws -> Void] = [
      { try numbers.setValue("lost", forKey: 1) },
      { try store.write { try $0.setBytes([1], forKey: 2, in: "own") } },
      { _ = try numbers.removeValue(forKey: 3) },
      { try store.write { try $0.setBytes([1], forKey: 4, in: "own") } },
      { try numbers.setValue("lost", forKey: 5) },
    ]
    // One after another, so that each queues after the one before: all but the first are promoted.
    let callers = try calls.enumerated().map { index, call in
      let caller = JoinableThread { () -> (Duration, StoreError?) in
        let start = ContinuousClock.now
        do { try call() } catch { return (ContinuousClock.now - start, error as? StoreError) }
        return (ContinuousClock.now - start, nil)
      }
      try eventually("the write is queued") { store.core.queuedWrites > index }
      return caller
    }
    var longest = Duration.zero
    for caller in callers {
      let (time, error) = caller.join()
      #expect(error?.code == .writerStalled && error?.pid == holder.processIdentifier)
      longest = max(longest, time)
    }
    holder.continue()
    try holder.order("go")
    try numbers.setValue("after", forKey: 9)
    #expect(numbers[1] == nil && numbers[5] == nil && numbers[9] == "after")
    try holder.dismiss()
    return longest
  }

  @Test(.timeLimit(.minutes(60)))
  func `While closing a store waits for a stopped writer other stores open and close`() throws {
    let ground = try StoreFixture()
    let holder = try ground.peer()
    let path = ground.path
    // The process's only handle is that of the thread below.
    ground.store.close()
    let store = try SharedStore(at: path, StoreOptions(writeTimeout: .seconds(3600)))
    let cache = PersistentCache<Int, Int>(storage: store)
    #expect(try holder.ask("hold") == "holding")
    try holder.stop()
    cache[1] = 1
    let closed = Progress()
    let closer = JoinableThread {
      store.close()
      closed.step()
    }
    // From here on it is being closed.
    try eventually("the store is being closed") { (try? store.statistics()) == nil }
    for number in 0..<3 {
      let other = try SharedStore(at: path + "-\(number)")
      try other.setBytes([1], forKey: 1)
      other.close()
    }
    let error = #expect(throws: StoreError.self) {
      try SharedStore(at: path, StoreOptions(openTimeout: .milliseconds(50)))
    }
    #expect(error?.code == .openTimeout)
    #expect(closed.value == 0)
    holder.continue()
    try holder.order("go")
    closer.join()
    let again = try SharedStore(at: path)
    #expect(PersistentCache<Int, Int>(storage: again)[1] == 1)
    again.close()
    try holder.dismiss()
  }
}
