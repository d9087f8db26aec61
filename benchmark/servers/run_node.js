// Node's http module: run_node.js PORT APPLICATION [WORKERS]
const cluster = require('cluster');
const http = require('http');
const [port, application, workers] = [+process.argv[2], process.argv[3], +(process.argv[4] || 1)];
const answer = (response, body = 'Hello, World!') => {
  response.writeHead(200, {'Content-Type': 'text/plain', 'Content-Length': body.length});
  response.end(body);
};
const fibonacci = (rounds) => {
  let a = 0, b = 1;
  for (let i = 0; i < rounds; i++) [a, b] = [b, (a + b) >>> 0];
  return a;
};
const handlers = {
  hello: (_, response) => answer(response),
  sleep: (_, response) => setTimeout(answer, 10, response),
  fib: (_, response) => answer(response, String(fibonacci(1e6))),
};
if (workers > 1 && cluster.isPrimary) {
  for (let i = 0; i < workers; i++) cluster.fork();
} else {
  http.createServer({keepAliveTimeout: 600_000}, handlers[application]).listen(port, '127.0.0.1', 1024);
}
