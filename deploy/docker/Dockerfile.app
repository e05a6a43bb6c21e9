# Your application on top of rota: its code, and what it needs.
FROM rota
USER root
COPY . /opt/app
RUN if [ -f /opt/app/requirements.txt ]; then /opt/rota/bin/pip install --no-cache-dir -r /opt/app/requirements.txt; fi
USER 10001:10001
ENV PYTHONPATH=/opt/app
