// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis && Tools
import LarderRedis
import Testing

@Suite struct RedisURLTests {
  @Test func `Each part of a URL is an option`() throws {
    let plain = try RedisConfiguration(url: "redis://localhost")
    #expect(plain.address == .host("localhost", port: 6379))
    #expect(plain.user == nil && plain.password == nil && plain.database == 0 && plain.tls == nil)
    let full = try RedisConfiguration(url: "redis://ap%70:p%40ss%2F%3A@[::1]:7000/12")
    #expect(full.address == .host("::1", port: 7000))
    #expect(full.user == "app" && full.password == "p@ss/:" && full.database == 12)
    #expect(full.description == "[::1]:7000 database 12")
    let password = try RedisConfiguration(url: "redis://:a:b@h/")
    #expect(password.user == nil && password.password == "a:b" && password.database == 0)
    let socket = try RedisConfiguration(url: "redis+unix://:x@/run/redis%20a.sock?db=3")
    #expect(socket.address == .unixSocket(path: "/run/redis a.sock"))
    #expect(socket.password == "x" && socket.database == 3)
    let secure = try RedisConfiguration(
      url: "rediss://h:6380/1?ca=/a%26b.pem&cert=/c.pem&key=/k.pem&name=cache.example")
    #expect(secure.tls?.authorities == "/a&b.pem" && secure.tls?.certificate == "/c.pem")
    #expect(secure.tls?.key == "/k.pem" && secure.tls?.serverName == "cache.example")
    #expect(secure.description == "h:6380 database 1 with TLS")
  }

  @Test func `A URL with sentinels has their addresses and a master name`() throws {
    func sentinel(_ host: String, _ port: Int = 26_379) -> RedisConfiguration.Endpoint {
      RedisConfiguration.Endpoint(host, port: port)
    }
    let plain = try RedisConfiguration(url: "redis+sentinel://a/shop")
    #expect(plain.address == .sentinels([sentinel("a")], master: "shop"))
    #expect(plain.database == 0 && plain.tls == nil && plain.sentinelPassword == nil)
    #expect(plain.description == "shop of sentinels a:26379")
    let url =
      "redis+sentinel://app:hid%40den@a:7000,[::1]:7001,[::2],b/shop.1/3?sentinel_user=s"
      + "&sentinel_password=hidd%65n&tls=1&ca=/ca.pem&name=cache.example"
    let full = try RedisConfiguration(url: url)
    let sentinels = [
      sentinel("a", 7000), sentinel("::1", 7001), sentinel("::2"), sentinel("b"),
    ]
    #expect(full.address == .sentinels(sentinels, master: "shop.1"))
    #expect(full.user == "app" && full.password == "hid@den" && full.database == 3)
    #expect(full.sentinelUser == "s" && full.sentinelPassword == "hidden")
    #expect(full.tls?.authorities == "/ca.pem" && full.tls?.serverName == "cache.example")
    #expect(
      full.description
        == "shop.1 of sentinels a:7000,[::1]:7001,[::2]:26379,b:26379 database 3 with TLS")
    #expect(try RedisConfiguration(url: url) == full)
  }

  @Test(arguments: [
    "localhost", "http://h", "redis://", "redis://:secret@", "redis://h:", "redis://h:0",
    "redis://h:65536", "redis://h:+1", "redis://secret@h", "redis://h/x", "redis://h/-1",
    "redis://h/1/2", "redis://[::1", "redis://[::1]x", "redis://:se%zzcret@h", "redis://:%00@h",
    "redis://:secret#1@h", "redis://h?db=1", "redis://h?ca=x", "rediss://h?cert=secret",
    "rediss://h?secret", "redis+unix://host/secret", "redis+unix://", "redis+unix:///",
    "redis+unix:///s?db=x", "redis+cluster://h/1", "redis+cluster://", "redis+cluster://h?tls=2",
    "redis://h/99999999999999999999",
    "redis+sentinel://h", "redis+sentinel://h/", "redis+sentinel:///shop", "redis+sentinel://h,/m",
    "redis+sentinel://h/m/x", "redis+sentinel://h/m/1/2", "redis+sentinel://h/m?ca=x",
    "redis+sentinel://h:0/m", "redis+sentinel://h/m?tls=secret", "redis+sentinel://h//1",
    "redis+sentinel://h/m?sentinel_user=secret", "redis+sentinel://:secret@h/m?tls=1&cert=x",
    "redis://h?sentinel_password=secret", "redis+sentinel://secret@h/m",
  ])
  func `A URL without a meaning is a typed error that has no part of a password`(url: String) {
    let error = #expect(throws: RedisError.self) { try RedisConfiguration(url: url) }
    #expect(error?.code == .invalidOption)
    #expect(error?.description.contains("secret") == false)
  }

  @Test func `No description has a password`() throws {
    let configuration = try RedisConfiguration(url: "redis://someone:hidden@h")
    #expect(!"\(configuration)".contains("hidden") && !"\(configuration)".contains("someone"))
    let command = RedisCommand("AUTH", "someone", "hidden")
    #expect("\(command)" == "AUTH with 2 arguments")
  }
}
#endif
